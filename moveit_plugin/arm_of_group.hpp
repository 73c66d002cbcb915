// Conversion of a planning group of MoveIt to a chain for the solver, like eim_ros/kinematics/urdf.py for a URDF.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arm_solver.hpp"
#include "moveit_headers.hpp"

namespace eim_moveit {

struct Arm {
    std::unique_ptr<ArmSolver> solver;
    std::vector<const moveit::core::JointModel*> joints;  // independent joints from base to tip
    std::vector<std::string> joint_names;
};

inline Eigen::Vector3d axis_of(const moveit::core::JointModel& joint) {
    if (joint.getType() == moveit::core::JointModel::REVOLUTE) {
        return static_cast<const moveit::core::RevoluteJointModel&>(joint).getAxis();
    }
    if (joint.getType() == moveit::core::JointModel::PRISMATIC) {
        return static_cast<const moveit::core::PrismaticJointModel&>(joint).getAxis();
    }
    throw std::invalid_argument("joint '" + joint.getName() + "' is neither revolute nor prismatic nor fixed");
}

inline Joint limits_of(const moveit::core::JointModel& joint) {
    const moveit::core::VariableBounds& bounds = joint.getVariableBounds().front();
    const bool is_continuous = joint.getType() == moveit::core::JointModel::REVOLUTE &&
                               static_cast<const moveit::core::RevoluteJointModel&>(joint).isContinuous();
    return {is_continuous ? -eim::kPi : bounds.min_position_, is_continuous ? eim::kPi : bounds.max_position_,
            is_continuous};
}

// Narrows the limits of a joint such that its mimic joint stays within the limits of the mimic joint. If the mimic
// joint cannot make full revolutions with it, the joint is no longer continuous.
inline void narrow(Joint& joint, const Joint& follower, double multiplier, double offset) {
    if (multiplier != std::nearbyint(multiplier)) joint.is_continuous = false;
    if (follower.is_continuous || multiplier == 0.0) return;
    const double a = (follower.lower - offset) / multiplier, b = (follower.upper - offset) / multiplier;
    if (std::min(a, b) > joint.lower || std::max(a, b) < joint.upper) joint.is_continuous = false;
    joint.lower = std::max(joint.lower, std::min(a, b)), joint.upper = std::min(joint.upper, std::max(a, b));
}

// Adds a row to the chain: the placement of a joint, and its kind of motion.
inline void add_row(std::vector<double>& rows, const Eigen::Isometry3d& placement, bool slides, int source,
                    double multiplier, double offset) {
    for (int r = 0; r < 3; ++r) {
        for (int c = 0; c < 3; ++c) rows.push_back(placement.linear()(r, c));
    }
    for (int r = 0; r < 3; ++r) rows.push_back(placement.translation()(r));
    rows.insert(rows.end(), {slides ? 1.0 : 0.0, static_cast<double>(source), multiplier, offset});
}

// Returns the links after `base` up to `tip`. Throws std::invalid_argument if the tip is not below the base.
inline std::vector<const moveit::core::LinkModel*> links_between(const moveit::core::LinkModel* base,
                                                                 const moveit::core::LinkModel* tip) {
    std::vector<const moveit::core::LinkModel*> links;
    for (const moveit::core::LinkModel* link = tip; link != base; link = link->getParentLinkModel()) {
        if (link == nullptr)
            throw std::invalid_argument("'" + tip->getName() + "' is not below '" + base->getName() + "'");
        links.insert(links.begin(), link);
    }
    return links;
}

// Returns the arm of a group. Throws std::invalid_argument with the reason if the solver does not support the chain.
inline Arm arm_of(const moveit::core::LinkModel* base, const moveit::core::LinkModel* tip) {
    Arm arm;
    std::vector<double> rows;
    std::vector<Joint> joints;
    Eigen::Isometry3d before = Eigen::Isometry3d::Identity();  // transform since the last moving joint
    const std::vector<const moveit::core::LinkModel*> links = links_between(base, tip);
    for (const moveit::core::LinkModel* link : links) {  // a mimic joint may precede the joint that it mimics
        const moveit::core::JointModel* joint = link->getParentJointModel();
        if (joint->getVariableCount() == 0 || joint->getMimic() != nullptr) continue;
        axis_of(*joint);
        arm.joints.push_back(joint), arm.joint_names.push_back(joint->getName()), joints.push_back(limits_of(*joint));
    }
    for (const moveit::core::LinkModel* link : links) {
        const moveit::core::JointModel* joint = link->getParentJointModel();
        before = before * link->getJointOriginTransform();
        if (joint->getVariableCount() == 0) continue;
        const moveit::core::JointModel* source = joint->getMimic() ? joint->getMimic() : joint;
        const auto place = std::find(arm.joints.begin(), arm.joints.end(), source);
        if (place == arm.joints.end()) {
            throw std::invalid_argument("joint '" + joint->getName() + "' follows '" + source->getName() +
                                        "', which is not in the chain");
        }
        Eigen::Isometry3d turn = Eigen::Isometry3d::Identity();
        turn.linear() =
            Eigen::Quaterniond::FromTwoVectors(Eigen::Vector3d::UnitZ(), axis_of(*joint)).toRotationMatrix();
        const bool follows = source != joint;
        const double multiplier = follows ? joint->getMimicFactor() : 1.0,
                     offset = follows ? joint->getMimicOffset() : 0.0;
        if (follows) narrow(joints[place - arm.joints.begin()], limits_of(*joint), multiplier, offset);
        add_row(rows, before * turn, joint->getType() == moveit::core::JointModel::PRISMATIC,
                static_cast<int>(place - arm.joints.begin()), multiplier, offset);
        before = turn.inverse();
    }
    add_row(rows, before, false, 0, 0.0, 0.0);
    arm.solver = std::make_unique<ArmSolver>(rows, std::move(joints));
    return arm;
}

}  // namespace eim_moveit
