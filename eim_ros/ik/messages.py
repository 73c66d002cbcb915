"""Error codes and messages of answers. All sentences about an outcome are written here."""

from __future__ import annotations

from eim_ros.ik.candidates import Candidates, ErrorCode
from eim_ros.ik.problem import Found, Problem
from eim_ros.ik.request import Covering, Draws, Proposals, Spread
from eim_ros.kinematics import Robot
from eim_ros.solver import NO_EXPERT

OUT_OF_REACH = "because the distance to the target exceeds the length of the arm"
NOT_BEGUN = "timed out: the search for this pose did not start"


def code_and_message(
    problem: Problem, found: Found, kept: Candidates, is_cut_short: bool = False
) -> tuple[ErrorCode, str]:
    """Return the error code and message of an answer.

    Parameters
    ----------
    problem : Problem
    found : Found
    kept : Candidates
        Distinct solutions among those found.
    is_cut_short : bool
        Whether there was no time to optimise or compare all solutions.
    """
    aim, n = problem.aim, problem.n
    n_valid = min(kept.n_valid, n)
    n = len(kept) if isinstance(aim, Covering) else n
    timed_out = found.timed_out or is_cut_short or problem.n_unchecked > 0
    if timed_out:
        code, reason = ErrorCode.TIMED_OUT, "timed out: "
    else:
        code, reason = (ErrorCode.SUCCESS if n_valid else ErrorCode.NO_IK_SOLUTION), ""
    if isinstance(aim, Proposals):
        return code, f"{reason}{n_valid} of {n} proposals are valid"
    if not n_valid:
        return _failure(problem, found, kept, code, reason)
    if found.effective_sample_size == 0.0:
        why = "" if timed_out else ", because the arm is singular or at its limits"
        what = f"{n_valid} of {n} configurations are valid, but they could not be drawn from the density{why}"
        return (code if timed_out else ErrorCode.FAILURE), f"{reason}{what}"
    if isinstance(aim, Spread) and aim.among > aim.n and not problem.order.moves:
        return code, f"{reason}the best {min(aim.n, n_valid)} of {n_valid} solutions"
    if isinstance(aim, Spread) and aim.among > aim.n:
        return code, f"{reason}the best of {n_valid} solutions after null-space optimisation"
    what = "draws" if isinstance(aim, Draws) else "solutions" if isinstance(aim, Covering) else "distinct solutions"
    what += " up to full revolutions" if aim.revolutions == "one" else ""
    count = f"{n_valid} {what}" if isinstance(aim, Covering) else f"{n_valid} of {n} {what}"
    count = f"found {count}" if timed_out else count
    return code, f"{reason}{count}{''.join(_remarks(problem, found, n_valid, n, timed_out, is_cut_short))}"


def _remarks(problem: Problem, found: Found, n_valid: int, n: int, timed_out: bool, is_cut_short: bool) -> list[str]:
    """Return remarks for the message of an answer with solutions."""
    remarks, report = [], found.report
    is_sampled = problem.is_sampled
    if found.n_total is not None and not problem.n_unchecked:
        remarks.append(", all that exist" if n_valid == found.n_total else f" of {found.n_total:.0f} that exist")
        if found.n_distinct is not None and found.n_distinct < found.n_total:
            remarks.append(f"; {found.n_distinct} up to full revolutions")
    elif n_valid >= problem.aim.n and isinstance(problem.aim, Covering):
        remarks.append("; the search ended at max_solutions, so there may be more")
    elif n_valid < n and not timed_out:
        remarks.append(
            "; samples of the model lead to few other solutions" if is_sampled else "; the search found no others"
        )
    if is_sampled and (found.candidates.expert[found.candidates.valid] == NO_EXPERT).any():
        remarks.append("; samples of the model led to no solution, so the solutions come from uniform seeds")
    if found.free_joints:
        remarks.append(f"; {' and '.join(found.free_joints)} can turn there while the tip stays")
    if found.is_singular:
        remarks.append("; the arm is singular there, so joints can turn while the tip stays, and more solutions exist")
    if n_valid < n and problem.n_colliding:
        remarks.append(f"; {problem.n_colliding} more solutions collide")
    if n_valid < n and problem.n_violating:
        remarks.append(f"; {problem.n_violating} more solutions have a link outside of its region")
    if n_valid < n and problem.n_outside_branch:
        remarks.append(f"; {problem.n_outside_branch} more solutions are not in the branch")
    if problem.n_unchecked:
        remarks.append(f"; there was no time to check {problem.n_unchecked} more solutions")
    if is_cut_short:
        remarks.append("; there was no time to optimise and compare all solutions")
    if found.effective_sample_size is not None and found.effective_sample_size < n:
        remarks.append(f"; the effective sample size is {found.effective_sample_size:.0f}")
    if report is not None and found.n_total is None:
        remarks.append(f"; {report}{', counting all branches' if problem.setup.constraints.branch else ''}")
    if problem.is_certified and not (found.n_total is not None if report is None else report.certified):
        why = "the arm is near a singularity, a curve only touches a limit, or solutions nearly meet"
        if found.n_total is not None:
            why = "completeness relies on a measured noise level"
        remarks.append(f"; not certified, because {why}")
    return remarks


def _failure(problem: Problem, found: Found, kept: Candidates, code: ErrorCode, reason: str) -> tuple[ErrorCode, str]:
    """Return the error code and message of an answer without a solution."""
    n_colliding, n_violating, n_outside = problem.n_colliding, problem.n_violating, problem.n_outside_branch
    timed_out, tried = code == ErrorCode.TIMED_OUT, f" in {found.n_restarts} restarts" if found.n_restarts else ""
    report = found.report
    is_proven = found.n_total == 0.0 or (report is not None and report.certified and not report.n_components)
    is_proven, rest = is_proven and not timed_out, ""
    if is_proven:
        rest = "; there are no others" if problem.redundancy <= 0 else "; the pose of the tip excludes all others"
    others = f", or are not in the branch ({n_outside} more)" if n_outside else ""
    if n_colliding:
        code = code if timed_out else ErrorCode.GOAL_IN_COLLISION
        outside = f", or have a link outside of its region ({n_violating} more)" if n_violating else ""
        others = f"{outside}{others}{rest}"
        return code, f"{reason}all {n_colliding} configurations found that reach the pose collide{others}"
    if n_violating:
        return code, f"{reason}all {n_violating} configurations found have a link outside of its region{others}{rest}"
    if n_outside:
        return code, f"{reason}all {n_outside} configurations found are in other branches{rest}"
    known = f"no solution found{tried}"
    if is_proven:
        known = f"there is no solution, {_proof(problem) if problem.is_within_reach else OUT_OF_REACH}"
    best = kept.best()
    if not len(best):
        return code, f"{reason}{known}; no configuration was tried"
    error = f"{best.position_error[0]:.3g} m and {best.orientation_error[0]:.3g} rad"
    far = too_far(problem.setup.robot, best.position_error[0])
    return code, f"{reason}{known}; the best attempt is off by {error}{far}"


def _proof(problem: Problem) -> str:
    """Return the words that name the proof if a pose within reach has no solution."""
    robot = problem.setup.robot
    has_form = (
        robot.parameterised_form is not None if robot.closed_form is None else robot.closed_form.kind != "general"
    )
    return "as a closed form shows" if has_form else "as a proof shows"


def too_far(robot: Robot, distance: float) -> str:
    """Return a remark on the unit of positions if the distance [m] by which a position is missed is very large."""
    return "; positions are in metres" if distance > 10.0 * robot.reach else ""
