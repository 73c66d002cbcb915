"""What `eim doctor` looks at: one module for each area, each check a function that returns findings.

They import what they check when they run, and nothing before: a doctor has to work where something is broken.
"""
