"""Helpers of tests of packages for boards."""
