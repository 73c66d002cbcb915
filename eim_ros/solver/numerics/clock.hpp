// Deadlines of calls.
#pragma once

#include <chrono>
#include <limits>

namespace eim {

// Time of the steady clock [s], which is Python's `perf_counter`.
inline double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline bool is_past(double deadline) {
    return deadline != std::numeric_limits<double>::infinity() && steady_seconds() >= deadline;
}

// Reads the clock at every n-th call only, because reading it takes longer than a short step of work.
class Watch {
   public:
    explicit Watch(double deadline, int every = 64) : deadline_(deadline), every_(every) {}
    bool is_past() {
        if (!is_past_ && ++n_asked_ % every_ == 0) is_past_ = eim::is_past(deadline_);
        return is_past_;
    }

   private:
    double deadline_;
    int every_, n_asked_ = 0;
    bool is_past_ = false;
};

}  // namespace eim
