"""The build of the MoveIt plugin uses the targets of each release, and is skipped if a package is missing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from catkin_pkg.package import parse_package

ROOT = Path(__file__).resolve().parents[2]
# targets in the CMakeLists.txt of moveit_core 2.12.4 (Jazzy) and 2.14.3 (Kilted)
JAZZY = KILTED = [
    "moveit_collision_detection",
    "moveit_collision_detection_bullet",
    "moveit_collision_detection_fcl",
    "moveit_collision_distance_field",
    "moveit_constraint_samplers",
    "moveit_distance_field",
    "moveit_dynamics_solver",
    "moveit_exceptions",
    "moveit_kinematic_constraints",
    "moveit_kinematics_base",
    "moveit_kinematics_metrics",
    "moveit_macros",
    "moveit_planning_interface",
    "moveit_planning_scene",
    "moveit_robot_model",
    "moveit_robot_state",
    "moveit_robot_trajectory",
    "moveit_smoothing_base",
    "moveit_test_utils",
    "moveit_trajectory_processing",
    "moveit_transforms",
    "moveit_utils",
]
# MoveIt 2.15 in rolling also exports one target that combines all other targets
RELEASES = {"jazzy": JAZZY, "kilted": KILTED, "rolling": [*KILTED, "moveit_core"]}
OTHERS = {
    "geometry_msgs": ["geometry_msgs__rosidl_generator_cpp"],
    "moveit_msgs": ["moveit_msgs__rosidl_generator_cpp"],
    "pluginlib": ["pluginlib"],
    "rclcpp": ["rclcpp"],
}
PROJECT = f"""
cmake_minimum_required(VERSION 3.20)
project(eim_ros LANGUAGES CXX)
foreach(place SYSTEM_ENVIRONMENT_PATH CMAKE_ENVIRONMENT_PATH CMAKE_SYSTEM_PATH PACKAGE_REGISTRY)
  set(CMAKE_FIND_USE_${{place}} OFF) # stand-ins only, not the MoveIt that this machine may have
endforeach()
include({ROOT}/cmake/moveit_plugin.cmake)
if(TARGET eim_ros_kinematics_plugin)
  message(STATUS "the plugin is a target")
endif()
message(STATUS "the package is configured to its end")
"""


def stand_in(prefix: Path, package: str, targets: list[str]) -> None:
    """Install CMake files like those that ament creates for a package with these targets."""
    folder = prefix / "share" / package / "cmake"
    folder.mkdir(parents=True)
    names = [f"{package}::{target}" for target in targets]
    lines = [f"add_library({name} INTERFACE IMPORTED)" for name in names]
    lines += [f"set({package}_TARGETS {';'.join(names)})"]
    if package == "pluginlib":
        lines += ["macro(pluginlib_export_plugin_description_file category file)", "endmacro()"]
    (folder / f"{package}Config.cmake").write_text("\n".join(lines), encoding="utf-8")
    (folder / f"{package}ConfigVersion.cmake").write_text("set(PACKAGE_VERSION 2.99.0)\n", encoding="utf-8")


def configure(folder: Path, packages: dict[str, list[str]], *options: str) -> str:
    """Return the output of cmake for the configuration of a package that contains only the plugin."""
    for package, targets in packages.items():
        stand_in(folder / "prefix", package, targets)
    project = folder / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
    for name in ("eim_ros", "moveit_plugin"):
        (project / name).symlink_to(ROOT / name)
    prefix = f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}"
    command = ["cmake", "-S", project, "-B", folder / "build", prefix, *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    assert "the package is configured to its end" in process.stdout
    return process.stdout


def plugin_lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if "MoveIt plugin" in line]


@pytest.mark.parametrize("release", RELEASES)
def test_plugin_is_configured_with_the_targets_of_each_release(tmp_path, release):
    """The configuration fails if a target is missing, because CMake refuses to link to a missing target."""
    output = configure(tmp_path, {"moveit_core": RELEASES[release], **OTHERS})
    assert plugin_lines(output) == ["-- MoveIt plugin: built for MoveIt 2.99.0"]
    assert "the plugin is a target" in output


def test_package_is_configured_without_moveit(tmp_path):
    output = configure(tmp_path, {})
    assert plugin_lines(output) == ["-- MoveIt plugin: skipped, moveit_core not found"]
    assert "the plugin is a target" not in output


@pytest.mark.parametrize("package", ["moveit_msgs", "pluginlib", "rclcpp"])
def test_plugin_is_skipped_if_a_package_is_missing_and_the_line_names_it(tmp_path, package):
    packages = {"moveit_core": RELEASES["rolling"], **OTHERS}
    del packages[package]
    assert plugin_lines(configure(tmp_path, packages)) == [f"-- MoveIt plugin: skipped, {package} not found"]


def test_plugin_is_skipped_if_moveit_lacks_a_target_and_the_line_names_it(tmp_path):
    targets = [name for name in RELEASES["jazzy"] if name not in ("moveit_robot_state", "moveit_robot_model")]
    output = configure(tmp_path, {"moveit_core": targets, **OTHERS})
    missing = "moveit_core::moveit_robot_model, moveit_core::moveit_robot_state"
    assert plugin_lines(output) == [f"-- MoveIt plugin: skipped, {missing} not found"]


def test_plugin_can_be_left_out_where_moveit_is(tmp_path):
    packages = {"moveit_core": RELEASES["jazzy"], **OTHERS}
    output = configure(tmp_path, packages, "-DCMAKE_DISABLE_FIND_PACKAGE_moveit_core=ON")
    assert plugin_lines(output) == ["-- MoveIt plugin: skipped, moveit_core not found"]


@pytest.mark.parametrize("ending", ["h", "hpp"])
def test_headers_of_moveit_are_found_with_either_ending(tmp_path, ending):
    """The first release for Jazzy has only .h files. Later releases have .hpp files, and warn about .h files."""
    header = ROOT / "moveit_plugin/moveit_headers.hpp"
    wanted = re.findall(r"#include <(moveit/.*)\.hpp>", header.read_text(encoding="utf-8"))
    assert len(wanted) > 5
    for name in wanted:
        path = tmp_path / f"{name}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    compiler = os.environ.get("CXX", "g++")
    process = subprocess.run(
        [compiler, "-std=c++20", "-E", "-I", tmp_path, header], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert all(f"/{name}.{ending}" in process.stdout for name in wanted)


def test_headers_of_moveit_are_included_in_one_file_only():
    including = {
        path.name
        for path in (ROOT / "moveit_plugin").glob("*.?pp")
        if "#include <moveit/" in path.read_text(encoding="utf-8")
    }
    assert including == {"moveit_headers.hpp"}


@pytest.mark.filterwarnings("ignore:.*deprecated.* use:DeprecationWarning")  # from catkin_pkg
def test_rosdep_installs_moveit_only_if_it_is_asked_for():
    """bloom evaluates conditions only with the variables of a distribution, so it also leaves out MoveIt."""
    script = (ROOT / "cmake/moveit_plugin.cmake").read_text(encoding="utf-8")
    found = re.search(r"foreach\(dependency (.*)\)", script)
    assert found
    needed = set(found[1].split())
    for environment, is_wanted in (({}, False), ({"EIM_ROS_MOVEIT": "1"}, True)):
        package = parse_package(str(ROOT))
        package.evaluate_conditions(environment)
        declared = {dependency.name for dependency in package.build_depends if dependency.evaluated_condition}
        assert ("moveit_core" in declared) is is_wanted
        assert (needed <= declared) is is_wanted


def test_colcon_builds_moveit_first_where_both_are_in_one_workspace():
    description = yaml.safe_load((ROOT / "colcon.pkg").read_text(encoding="utf-8"))
    conditional = {dependency.name for dependency in parse_package(str(ROOT)).build_depends if dependency.condition}
    assert set(description["build-dependencies"]) == conditional
