"""From blocks to loops: what blocks say is made plain statements."""
