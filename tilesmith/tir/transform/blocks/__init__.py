"""Passes that lower blocks to plain loops and statements."""
