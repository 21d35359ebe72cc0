"""Who belongs to an organization, and what ends when they leave."""
