"""What every API of the portal shares: problems, bounded bodies, negotiation, pages of a list. No addresses."""
