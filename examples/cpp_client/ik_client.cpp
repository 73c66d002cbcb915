// Ask ik_server for the solution nearest to a state, like planners in MoveIt, and for 100 solutions of the same pose.
//
//     ik_server --robot panda --groups panda_arm
//     cmake -S examples/cpp_client -B build/cpp_client && cmake --build build/cpp_client
//     build/cpp_client/ik_client
//
// To select another server, add --ros-args -p server:=/left/ik_server.

#include <chrono>
#include <cstdio>
#include <eim_ros/srv/sample_ik.hpp>
#include <exception>
#include <geometry_msgs/msg/pose.hpp>
#include <lifecycle_msgs/msg/state.hpp>
#include <lifecycle_msgs/srv/get_state.hpp>
#include <memory>
#include <rclcpp/rclcpp.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// ik_server always offers get_position_ik. If moveit_msgs is installed, it also offers compute_ik with the same fields.
#if __has_include(<moveit_msgs/srv/get_position_ik.hpp>)
#include <moveit_msgs/srv/get_position_ik.hpp>
using GetPositionIK = moveit_msgs::srv::GetPositionIK;
const std::string POSITION_IK = "compute_ik";
#else
#include <eim_ros/srv/get_position_ik.hpp>
using GetPositionIK = eim_ros::srv::GetPositionIK;
const std::string POSITION_IK = "get_position_ik";
#endif
using eim_ros::srv::SampleIK;
using lifecycle_msgs::srv::GetState;
using namespace std::chrono_literals;

namespace {

// Return the response of a service, or throw if none arrives. Do not call this function in a callback of the same node,
// because the function spins the node. In callbacks, pass a function to async_send_request instead.
template <typename Service>
typename Service::Response::SharedPtr call(const rclcpp::Node::SharedPtr& node, const std::string& name,
                                           const typename Service::Request& request) {
    // The queue is longer than the default of 10, because a shorter queue may lose answers. eim_ros.nodes.SERVICE_QOS
    // has the same length.
    const auto client = node->create_client<Service>(name, rclcpp::ServicesQoS().keep_last(1000));
    if (!client->wait_for_service(10s)) {
        throw std::runtime_error(name + " does not answer; start the server first");
    }
    auto answer = client->async_send_request(std::make_shared<typename Service::Request>(request));
    if (rclcpp::spin_until_future_complete(node, answer, 30s) != rclcpp::FutureReturnCode::SUCCESS) {
        client->remove_pending_request(answer);
        throw std::runtime_error(name + " did not answer within 30 s");
    }
    return answer.get();
}

// The services already exist while the server loads the robot, but requests are refused until the server is active.
void wait_until_active(const rclcpp::Node::SharedPtr& node, const std::string& server) {
    for (int attempt = 0; attempt < 600; ++attempt) {  // 60 s
        if (call<GetState>(node, server + "/get_state", GetState::Request())->current_state.id ==
            lifecycle_msgs::msg::State::PRIMARY_STATE_ACTIVE) {
            return;
        }
        std::this_thread::sleep_for(100ms);
    }
    throw std::runtime_error(server + " is not active; see its log");
}

void print_joints(const double* values, std::size_t n) {
    for (std::size_t joint = 0; joint < n; ++joint) {
        std::printf(" %.4f", values[joint]);
    }
    std::printf("\n");
}

void solve_nearest(const rclcpp::Node::SharedPtr& node, const std::string& server,
                   const geometry_msgs::msg::Pose& pose) {
    GetPositionIK::Request request;
    auto& ik = request.ik_request;
    ik.group_name = "panda_arm";
    ik.pose_stamped.header.frame_id = "panda_link0";
    ik.pose_stamped.pose = pose;
    for (int joint = 1; joint <= 7; ++joint) {
        ik.robot_state.joint_state.name.push_back("panda_joint" + std::to_string(joint));
    }
    ik.robot_state.joint_state.position = {0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785};  // [rad]
    ik.avoid_collisions = true;
    ik.timeout.sec = 1;
    const auto response = call<GetPositionIK>(node, server + "/" + POSITION_IK, request);
    if (response->error_code.val != eim_ros::msg::ErrorCodes::SUCCESS) {  // same value as in MoveIt
        throw std::runtime_error(POSITION_IK + ": error code " + std::to_string(response->error_code.val));
    }
    const auto& q = response->solution.joint_state.position;
    std::printf("%s:", POSITION_IK.c_str());
    print_joints(q.data(), q.size());
}

void sample(const rclcpp::Node::SharedPtr& node, const std::string& server, const geometry_msgs::msg::Pose& pose) {
    SampleIK::Request request;
    request.poses = {pose};
    request.n_samples = 100;
    request.seed = -1;  // draw different samples in each call
    const auto response = call<SampleIK>(node, server + "/sample_ik", request);
    const auto& solutions = response->solutions;
    if (solutions.error_code.val != eim_ros::msg::ErrorCodes::SUCCESS) {
        throw std::runtime_error("sample_ik: " + solutions.error_code.message);
    }
    const std::size_t n_joints = solutions.joint_names.size();
    std::printf("sample_ik: %u configurations of %zu joints\n", solutions.n, n_joints);
    for (std::size_t row = 0; row < solutions.n; ++row) {
        print_joints(&solutions.positions[row * n_joints], n_joints);
    }
}

}  // namespace

int main(int argc, char** argv) {
    rclcpp::init(argc, argv);
    int status = 0;
    try {
        const auto node = std::make_shared<rclcpp::Node>("ik_client");
        const auto server = node->declare_parameter<std::string>("server", "/ik_server");
        geometry_msgs::msg::Pose pose;
        pose.position.x = 0.4;  // [m]
        pose.position.y = 0.1;
        pose.position.z = 0.5;
        pose.orientation.x = 1.0;  // the hand points downward
        pose.orientation.w = 0.0;
        wait_until_active(node, server);
        solve_nearest(node, server, pose);
        sample(node, server, pose);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ik_client: %s\n", error.what());
        status = 1;
    }
    rclcpp::shutdown();
    return status;
}
