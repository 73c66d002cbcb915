"""Solutions of inverse kinematics as people see them: live, while they drag the target.

viser serves the page. What it shows is worked out without it: families and their colours, the chosen solution, the
surfaces of the arm.
"""
