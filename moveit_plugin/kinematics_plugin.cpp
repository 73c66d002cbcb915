#include "kinematics_plugin.hpp"

#include <cmath>
#include <pluginlib/class_list_macros.hpp>
#include <stdexcept>

namespace eim_moveit {

namespace {

rclcpp::Logger logger() {
    return rclcpp::get_logger("eim_ros.kinematics_plugin");
}

// Writes the rotation and the position of a pose to `target`. Returns false if the quaternion is not normalised, or if
// the position is not finite.
bool read(const geometry_msgs::msg::Pose& pose, double (&target)[3][4]) {
    Eigen::Quaterniond turn(pose.orientation.w, pose.orientation.x, pose.orientation.y, pose.orientation.z);
    const double norm = turn.norm();
    const Eigen::Vector3d position(pose.position.x, pose.position.y, pose.position.z);
    if (!(std::abs(norm - 1.0) < 1e-3) || !position.allFinite()) return false;
    const Eigen::Matrix3d rotation = turn.normalized().toRotationMatrix();
    for (int r = 0; r < 3; ++r) {
        for (int c = 0; c < 3; ++c) target[r][c] = rotation(r, c);
        target[r][3] = position(r);
    }
    return true;
}

geometry_msgs::msg::Pose message_of(const Eigen::Isometry3d& pose) {
    geometry_msgs::msg::Pose message;
    const Eigen::Quaterniond turn(pose.linear());
    message.position.x = pose.translation().x(), message.position.y = pose.translation().y();
    message.position.z = pose.translation().z();
    message.orientation.x = turn.x(), message.orientation.y = turn.y(), message.orientation.z = turn.z();
    message.orientation.w = turn.w();
    return message;
}

// Returns the deadline for a timeout [s]. The timeout is limited to one hour, because MoveIt may pass infinity.
Clock::time_point deadline_after(double seconds) {
    const std::chrono::duration<double> left(std::clamp(seconds, 0.0, 3600.0));
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
}

}  // namespace

bool KinematicsPlugin::initialize(const rclcpp::Node::SharedPtr& node, const moveit::core::RobotModel& robot_model,
                                  const std::string& group_name, const std::string& base_frame,
                                  const std::vector<std::string>& tip_frames, double search_discretization) {
    node_ = node;
    storeValues(robot_model, group_name, base_frame, tip_frames, search_discretization);
    supported_methods_ = {kinematics::DiscretizationMethods::NO_DISCRETIZATION};
    if (tip_frames_.size() != 1) {
        RCLCPP_ERROR(logger(), "group '%s' has %zu tips, but this plugin supports only groups with one tip",
                     group_name.c_str(), tip_frames_.size());
        return false;
    }
    const moveit::core::LinkModel* base = robot_model.getLinkModel(base_frame_);
    const moveit::core::LinkModel* tip = robot_model.getLinkModel(tip_frames_.front());
    if (base == nullptr || tip == nullptr) return false;  // MoveIt has already logged the missing link
    try {
        arm_ = arm_of(base, tip);
    } catch (const std::invalid_argument& error) {
        RCLCPP_ERROR(logger(), "group '%s' cannot be solved: %s", group_name.c_str(), error.what());
        return false;
    }
    return true;
}

bool KinematicsPlugin::getPositionIK(const Pose& pose, const Configuration& seed, Configuration& solution,
                                     ErrorCode& error_code, const Options& options) const {
    double target[3][4];
    error_code.val = ErrorCode::NO_IK_SOLUTION;
    if (!is_well_formed(seed, {}) || !read(pose, target)) return false;
    const eim::Task task = arm_.solver->task(target, seed, reach({}, options));
    const Configuration found = arm_.solver->is_possible(task) ? arm_.solver->refined(task, seed) : Configuration();
    if (found.empty()) return false;
    solution = found;
    error_code.val = ErrorCode::SUCCESS;
    return true;
}

bool KinematicsPlugin::getPositionIK(const std::vector<Pose>& poses, const Configuration& seed,
                                     std::vector<Configuration>& solutions, kinematics::KinematicsResult& result,
                                     const Options& options) const {
    using kinematics::KinematicErrors::KinematicError;
    double target[3][4];
    solutions.clear();
    const auto fail = [&](KinematicError error) {
        result.kinematic_error = error, result.solution_percentage = 0.0;
        return false;
    };
    if (poses.empty()) return fail(KinematicError::EMPTY_TIP_POSES);
    if (poses.size() > 1) return fail(KinematicError::MULTIPLE_TIPS_NOT_SUPPORTED);
    if (options.discretization_method != kinematics::DiscretizationMethods::NO_DISCRETIZATION) {
        return fail(KinematicError::UNSUPORTED_DISCRETIZATION_REQUESTED);
    }
    if (!arm_.solver) return fail(KinematicError::SOLVER_NOT_ACTIVE);
    if (!is_well_formed(seed, {}) || !read(poses.front(), target)) return fail(KinematicError::NO_SOLUTION);
    const eim::Task task = arm_.solver->task(target, seed, reach({}, options));
    if (!arm_.solver->is_possible(task)) return fail(KinematicError::IK_SEED_OUTSIDE_LIMITS);
    solutions = arm_.solver->several(task, seed, deadline_after(default_timeout_), kMostSolutions);
    if (solutions.empty()) return fail(KinematicError::NO_SOLUTION);
    result.kinematic_error = KinematicError::OK, result.solution_percentage = 1.0;
    return true;
}

bool KinematicsPlugin::searchPositionIK(const Pose& pose, const Configuration& seed, double timeout,
                                        Configuration& solution, ErrorCode& error_code, const Options& options) const {
    return searchPositionIK(pose, seed, timeout, {}, solution, IKCallbackFn(), error_code, options);
}

bool KinematicsPlugin::searchPositionIK(const Pose& pose, const Configuration& seed, double timeout,
                                        const std::vector<double>& consistency_limits, Configuration& solution,
                                        ErrorCode& error_code, const Options& options) const {
    return searchPositionIK(pose, seed, timeout, consistency_limits, solution, IKCallbackFn(), error_code, options);
}

bool KinematicsPlugin::searchPositionIK(const Pose& pose, const Configuration& seed, double timeout,
                                        Configuration& solution, const IKCallbackFn& accept, ErrorCode& error_code,
                                        const Options& options) const {
    return searchPositionIK(pose, seed, timeout, {}, solution, accept, error_code, options);
}

bool KinematicsPlugin::searchPositionIK(const Pose& pose, const Configuration& seed, double timeout,
                                        const std::vector<double>& consistency_limits, Configuration& solution,
                                        const IKCallbackFn& accept, ErrorCode& error_code,
                                        const Options& options) const {
    double target[3][4];
    error_code.val = ErrorCode::NO_IK_SOLUTION;
    if (!is_well_formed(seed, consistency_limits) || !read(pose, target)) return false;
    const eim::Task task = arm_.solver->task(target, seed, reach(consistency_limits, options));
    if (!arm_.solver->is_possible(task)) return false;
    const Clock::time_point deadline = deadline_after(timeout > 0.0 ? timeout : default_timeout_);
    const bool is_found = arm_.solver->search(task, seed, deadline, [&](Configuration q) {
        ErrorCode verdict;
        verdict.val = ErrorCode::SUCCESS;
        if (accept) accept(pose, q, verdict);
        if (verdict.val != ErrorCode::SUCCESS) return false;
        solution = std::move(q);
        return true;
    });
    if (is_found) error_code.val = ErrorCode::SUCCESS;
    if (!is_found && Clock::now() >= deadline) error_code.val = ErrorCode::TIMED_OUT;
    return is_found;
}

bool KinematicsPlugin::getPositionFK(const std::vector<std::string>& link_names, const Configuration& joint_angles,
                                     std::vector<Pose>& poses) const {
    if (!is_well_formed(joint_angles, {})) return false;
    moveit::core::RobotState state(robot_model_);
    state.setToDefaultValues();
    for (std::size_t j = 0; j < joint_angles.size(); ++j) {
        state.setJointPositions(arm_.joints[j], &joint_angles[j]);
    }
    state.update();
    const Eigen::Isometry3d to_base = state.getGlobalLinkTransform(base_frame_).inverse();
    poses.clear();
    for (const std::string& name : link_names) {
        if (!robot_model_->hasLinkModel(name)) {
            RCLCPP_ERROR(logger(), "there is no link '%s'", name.c_str());
            return false;
        }
        poses.push_back(message_of(to_base * state.getGlobalLinkTransform(name)));
    }
    return true;
}

Configuration KinematicsPlugin::reach(const std::vector<double>& consistency_limits, const Options& options) const {
    Configuration result(arm_.joints.size(), std::numeric_limits<double>::infinity());
    std::copy(consistency_limits.begin(), consistency_limits.end(), result.begin());
    if (options.lock_redundant_joints) {
        for (unsigned int j : redundant_joint_indices_) result.at(j) = 0.0;
    }
    return result;
}

bool KinematicsPlugin::is_well_formed(const Configuration& seed, const std::vector<double>& consistency_limits) const {
    if (!arm_.solver) {
        RCLCPP_ERROR(logger(), "the plugin is not initialised");
        return false;
    }
    const std::size_t n = arm_.joints.size();
    const bool is_finite = std::all_of(seed.begin(), seed.end(), [](double value) { return std::isfinite(value); });
    if (seed.size() != n || !is_finite || (!consistency_limits.empty() && consistency_limits.size() != n)) {
        RCLCPP_ERROR(logger(),
                     "expected %zu finite joint values and as many consistency limits, or none; got %zu and %zu", n,
                     seed.size(), consistency_limits.size());
        return false;
    }
    return true;
}

}  // namespace eim_moveit

PLUGINLIB_EXPORT_CLASS(eim_moveit::KinematicsPlugin, kinematics::KinematicsBase)
