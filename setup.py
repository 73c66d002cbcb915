"""Package description for pip: code, compiled modules, models and robots, console scripts, dependencies.

colcon builds with CMakeLists.txt, which reads the table of console scripts from this file.
"""

import copy
import itertools
import os
import platform
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension, build_ext
from setuptools import Extension, find_packages, setup

NAME = "eim_ros"
SHARED = ("config", "launch", "urdf")
# `ros2 launch` and ament_index_python find the package by this file if the prefix is in AMENT_PREFIX_PATH
AMENT = [("share/ament_index/resource_index/packages", [f"resource/{NAME}"]), (f"share/{NAME}", ["package.xml"])]

# the requirements of `eim sample`
REQUIRES = ["numpy>=1.26", "pin>=3", "PyYAML", "rich>=13.3", "safetensors", "scipy"]
EXTRAS = {
    "learning": ["torch>=2"],
    "bags": ["mcap>=1.2", "rosbags>=0.10", "zstandard>=0.18"],
    "mjcf": ["mujoco>=3.17"],
    "viz": ["matplotlib>=3.6"],
    "view": ["trimesh>=4", "viser>=1.1"],
    "sklearn": ["scikit-learn>=1.6"],
    "cuda": ["cuda-core>=1", "nvidia-cuda-cccl>=13", "nvidia-cuda-nvrtc>=13"],
    "experiments": ["distributed>=2025.5", "joblib>=1.3", "matplotlib>=3.6", "scikit-learn>=1.6", "torch>=2"],
}

PROCESSOR = f"{NAME}.core._processor"
INSTRUCTION_SET = str(Path(NAME, "core", "instruction_set.hpp"))
DEVICE_MODULE = f"{NAME}.ik.device._kernels"
COMPILED = (f"{NAME}.solver._solver", f"{NAME}.learning.models.native._quadratic_forms")
HEADERS = Path(NAME, "solver")  # includes are written relative to it
DEVICE = Path(NAME, "ik", "device")  # kernels for GPUs, compiled on the user's machine, and their version for CPUs
DEVICE_HEADERS = [f"{folder}/*.hpp" for folder in ("chain", "closed_form", "numerics")]
NUMERICS = HEADERS / "numerics"  # headers of both modules
INSTRUCTION_SETS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    INSTRUCTION_SETS["avx2"] = ["-march=x86-64-v3", "-mno-fma"]  # see numerics/portable.hpp
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1", "-O1"]  # scripts/sanitize.sh
OPTIONS = [
    os.environ.get("EIM_ROS_OPTIMISATION", "-O3"),
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",  # no fused products and sums: they round once, and not every processor has them
    "-Wno-psabi",
    "-Wno-ignored-attributes",
]


def compiled_modules() -> list[Extension]:
    """Return an extension for each compiled module and instruction set; `core/native.py` selects one at run time.

    The source of a module is `binding.cpp` in its folder. `EIM_ROS_INSTRUCTION_SETS` limits the sets to those needed on
    this machine (scripts/instruction_sets.sh); a package for other machines contains all of them.
    """
    sanitized = SANITIZED if os.environ.get("EIM_ROS_SANITIZE") else []
    wanted = os.environ.get("EIM_ROS_INSTRUCTION_SETS", " ".join(INSTRUCTION_SETS)).split()
    if unknown := set(wanted) - set(INSTRUCTION_SETS):
        known = ", ".join(INSTRUCTION_SETS)
        raise SystemExit(f"EIM_ROS_INSTRUCTION_SETS: unknown {', '.join(sorted(unknown))}; expected some of {known}")
    extensions: list[Extension] = []
    if wanted:
        source = str(Path(NAME, "core", "processor.cpp"))
        extensions.append(
            Extension(PROCESSOR, [source], depends=[INSTRUCTION_SET], extra_compile_args=["-std=c++20", "-O2"])
        )
        extensions.append(
            Pybind11Extension(
                DEVICE_MODULE,
                [str(DEVICE / "binding.cpp")],
                depends=sorted({str(header) for place in (DEVICE, HEADERS) for header in place.rglob("*.hpp")}),
                include_dirs=[str(DEVICE), str(HEADERS)],  # the order matters, see chain/chain.hpp
                cxx_std=20,
                extra_compile_args=[*OPTIONS, "-O2", *sanitized],
                extra_link_args=sanitized,
            )
        )
    for module, instruction_set in itertools.product(COMPILED, wanted):
        options = INSTRUCTION_SETS[instruction_set]
        folder = Path(*module.split(".")[:-1])
        name = f"{module}_{instruction_set}"
        extensions.append(
            Pybind11Extension(
                name,
                [str(folder / "binding.cpp")],
                depends=sorted({str(header) for place in (folder, NUMERICS) for header in place.rglob("*.hpp")}),
                include_dirs=[str(HEADERS)],
                define_macros=[("EIM_MODULE", name.rpartition(".")[2])],
                cxx_std=20,
                extra_compile_args=[*OPTIONS, *options, *sanitized],
                extra_link_args=sanitized,
            )
        )
    return extensions


class BuildExtensions(build_ext):
    """Parallel build with one folder per module, because all instruction sets share the same source file."""

    def finalize_options(self) -> None:
        super().finalize_options()
        # set here because an editable install ignores the options passed to setup()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        alone = copy.copy(self)
        alone.build_temp = os.path.join(self.build_temp, ext.name)
        super(BuildExtensions, alone).build_extension(ext)


def shared_files() -> list[tuple[str, list[str]]]:
    """Return the folders below share/eim_ros and their files in the form of `data_files`."""
    folders = [Path(top) for top in SHARED]
    folders += [folder for top in SHARED for folder in sorted(Path(top).rglob("*")) if folder.is_dir()]
    contents = {
        folder: sorted(str(file) for file in folder.iterdir() if file.is_file() and file.suffix != ".pyc")
        for folder in folders
        if folder.is_dir() and folder.name != "__pycache__"
    }
    return [(f"share/{NAME}/{folder}", files) for folder, files in contents.items() if files]


setup(
    name=NAME,
    version="0.3.0",
    description="All joint configurations that reach a pose, and those that people prefer, learned from samples",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="inverse kinematics, robotics, ROS 2, MoveIt, imitation learning, variational inference",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C++",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Mathematics",
        "Typing :: Typed",
    ],
    maintainer="eim_ros maintainers",
    maintainer_email="maintainers@eim-ros.invalid",
    # With this file's folder on the path, an editable install also finds the interfaces in site-packages.
    package_dir={"": "."},
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={
        NAME: ["py.typed"],
        **{module.rpartition(".")[0]: ["*.pyi"] for module in (PROCESSOR, *COMPILED)},
        f"{NAME}.solver": ["*.pyi", *DEVICE_HEADERS],
        f"{NAME}.ik.device": ["*.pyi", "*.cu", "*.hpp", "chain/*.hpp"],
    },
    ext_modules=compiled_modules(),
    cmdclass={"build_ext": BuildExtensions},
    data_files=[*shared_files(), *AMENT],
    install_requires=REQUIRES,
    extras_require={**EXTRAS, "all": sorted({name for extra in EXTRAS if extra != "cuda" for name in EXTRAS[extra]})},
    python_requires=">=3.10",
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "eim = eim_ros.cli.main:main",
            # the names of eim_ros.nodes.__main__.NODES
            "ik_server = eim_ros.nodes.__main__:main",
            "ik_viewer = eim_ros.nodes.__main__:main",
            "demo_recorder = eim_ros.nodes.__main__:main",
            "fk_collector = eim_ros.nodes.__main__:main",
            "demonstrator = eim_ros.nodes.__main__:main",
            "planar_simulator = eim_ros.nodes.__main__:main",
            "motion_prior_server = eim_ros.nodes.__main__:main",
            "trainer = eim_ros.nodes.__main__:main",
            "training_coordinator = eim_ros.nodes.__main__:main",
        ]
    },
)
