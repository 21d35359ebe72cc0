"""What the scripted models of these examples want, and the tools that they have."""

from collections.abc import Callable
from typing import Any

USER = {"id": "charlie", "name": "Charlie", "email": "charlie@acme.test"}
PROMPT = "Pay for the laptops, and close the account of whoever left."

# Each call of the model: its id, the tool and the arguments. People are asked before the second and the third.
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("call_1", "oa__purchase_pay", {"order": "PO-1041", "amount": 8000}),
    ("call_2", "oa__purchase_pay", {"order": "PO-1042", "amount": 60000}),
    ("call_3", "hr__employee_delete", {"employee": "E-7"}),
    ("call_4", "hr__employee_find", {"name": "nobody"}),
]
ANSWER = "That is all I could do."


def purchase_pay(order: str, amount: int) -> str:
    """Pay a purchase order."""
    return f"paid {amount} for {order}"


def employee_delete(employee: str) -> str:
    """Delete an employee's record."""
    return f"{employee} deleted"


def employee_find(name: str) -> str:
    """Find an employee. Fails."""
    raise LookupError(f"no employee is called {name}")


TOOLS: dict[str, Callable[..., Any]] = {
    "oa__purchase_pay": purchase_pay,
    "hr__employee_delete": employee_delete,
    "hr__employee_find": employee_find,
}
