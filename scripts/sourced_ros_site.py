"""Startup file of a .venv that makes its interfaces available, as if they were sourced.

The file is copied only into a venv that uses a sourced ROS 2, because the wheels of ROS 2 have their own mechanism. The
loader reads LD_LIBRARY_PATH only when a process starts. Therefore, Python restarts if the venv is missing from this
variable.
"""

import os
import sys

_environment = dict(os.environ)
for _name, _folder in {"LD_LIBRARY_PATH": os.path.join(sys.prefix, "lib"), "AMENT_PREFIX_PATH": sys.prefix}.items():
    _folders = [folder for folder in _environment.get(_name, "").split(os.pathsep) if folder]
    if _folder not in _folders:
        _environment[_name] = os.pathsep.join([_folder, *_folders])

if _environment != dict(os.environ):
    os.execve(sys.executable, sys.orig_argv, _environment)
