// `eim_ros/KinematicsPlugin` for MoveIt: inverse kinematics by eim_ros/solver, without a server.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "arm_of_group.hpp"
#include "moveit_headers.hpp"

namespace eim_moveit {

class KinematicsPlugin : public kinematics::KinematicsBase {
   public:
    using Pose = geometry_msgs::msg::Pose;
    using ErrorCode = moveit_msgs::msg::MoveItErrorCodes;
    using Options = kinematics::KinematicsQueryOptions;

    bool initialize(const rclcpp::Node::SharedPtr& node, const moveit::core::RobotModel& robot_model,
                    const std::string& group_name, const std::string& base_frame,
                    const std::vector<std::string>& tip_frames, double search_discretization) override;

    // Returns the solution that the solver reaches from the seed. MoveIt requires that this function does not try other
    // seeds.
    bool getPositionIK(const Pose& pose, const Configuration& seed, Configuration& solution, ErrorCode& error_code,
                       const Options& options = Options()) const override;

    // Returns at most kMostSolutions distinct solutions found within the default timeout, in the order of their
    // distance from the seed. Requests with a discretisation of redundant joints are refused.
    bool getPositionIK(const std::vector<Pose>& poses, const Configuration& seed, std::vector<Configuration>& solutions,
                       kinematics::KinematicsResult& result, const Options& options) const override;

    // Returns the nearest of the solutions that the first successful method finds. If there is a callback, it must
    // accept the solution.
    bool searchPositionIK(const Pose& pose, const Configuration& seed, double timeout, Configuration& solution,
                          ErrorCode& error_code, const Options& options = Options()) const override;
    bool searchPositionIK(const Pose& pose, const Configuration& seed, double timeout,
                          const std::vector<double>& consistency_limits, Configuration& solution, ErrorCode& error_code,
                          const Options& options = Options()) const override;
    bool searchPositionIK(const Pose& pose, const Configuration& seed, double timeout, Configuration& solution,
                          const IKCallbackFn& accept, ErrorCode& error_code,
                          const Options& options = Options()) const override;
    bool searchPositionIK(const Pose& pose, const Configuration& seed, double timeout,
                          const std::vector<double>& consistency_limits, Configuration& solution,
                          const IKCallbackFn& accept, ErrorCode& error_code,
                          const Options& options = Options()) const override;
    using kinematics::KinematicsBase::searchPositionIK;  // overloads of MoveIt for several poses and for costs

    bool getPositionFK(const std::vector<std::string>& link_names, const Configuration& joint_angles,
                       std::vector<Pose>& poses) const override;

    const std::vector<std::string>& getJointNames() const override { return arm_.joint_names; }
    const std::vector<std::string>& getLinkNames() const override { return tip_frames_; }

   private:
    static constexpr int kMostSolutions = 100;

    // Returns the allowed distance of each joint from the seed: infinity, its consistency limit, or 0 for a locked
    // joint.
    Configuration reach(const std::vector<double>& consistency_limits, const Options& options) const;
    bool is_well_formed(const Configuration& seed, const std::vector<double>& consistency_limits) const;

    Arm arm_;
};

}  // namespace eim_moveit
