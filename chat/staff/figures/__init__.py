"""How the desk does: days counted into rows (`daily`), rows read as tables (`reading`), tables drawn (`drawing`) and
shown (`chat.staff.admin.figures`).
"""
