"""Changes of what governs an organization, one verb each: rule, rows, audit entry. The admin and ``apply`` call it."""
