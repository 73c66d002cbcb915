"""Package description for pip: code, models and robots, console scripts, dependencies.

colcon builds by CMakeLists.txt, which reads the table of console scripts here.
"""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "eim_ros"
SHARED = ("config", "urdf")

REQUIRES = ["numba", "numpy>=1.26", "pin>=3", "PyYAML", "safetensors", "scipy", "tqdm"]  # to serve models: eim sample
EXTRAS = {
    "learning": ["torch>=2"],
    "bags": ["rosbags>=0.10"],
    "viz": ["matplotlib>=3.6"],
}


def shared_files() -> list[tuple[str, list[str]]]:
    """Folders below share/eim_ros and the files of each, as `data_files` wants them."""
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
    version="0.1.0",
    description="Sampled, verified joint configurations for one pose, from a mixture of experts trained by EIM",
    license="Apache-2.0",
    maintainer="eim_ros maintainers",
    maintainer_email="maintainers@eim-ros.invalid",
    # the folder of this file on the path, so that an editable install finds the interfaces in site-packages, too
    package_dir={"": "."},
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: ["py.typed"]},
    data_files=shared_files(),
    install_requires=REQUIRES,
    extras_require={**EXTRAS, "all": sorted(sum(EXTRAS.values(), []))},
    python_requires=">=3.10",
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "eim = eim_ros.cli.main:main",
            "ik_server = eim_ros.nodes.ik_server:main",
            "demo_recorder = eim_ros.nodes.demo_recorder:main",
            "fk_collector = eim_ros.nodes.fk_collector:main",
            "demonstrator = eim_ros.nodes.demonstrator:main",
            "planar_simulator = eim_ros.nodes.planar_simulator:main",
            "motion_prior_server = eim_ros.nodes.motion_prior_server:main",
            "trainer = eim_ros.nodes.trainer:main",
        ]
    },
)
