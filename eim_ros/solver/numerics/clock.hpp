// Deadlines of calls.
#pragma once

#include <chrono>
#include <limits>

namespace eim {

// Returns the time of the steady clock [s]. Python's `perf_counter` uses the same clock.
inline double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Receives the time whenever its thread compares the clock with a deadline.
class ClockListener {
   public:
    virtual void hear(double now) = 0;
    virtual void skip(double seconds) = 0;  // reports the time during which another listener was installed

   protected:
    ~ClockListener() = default;
};

inline thread_local ClockListener* clock_listener = nullptr;  // listener of this thread, or null

inline bool is_past(double deadline) {
    if (deadline == std::numeric_limits<double>::infinity() && !clock_listener) return false;
    const double now = steady_seconds();
    if (clock_listener) clock_listener->hear(now);
    return now >= deadline;
}

// Reads the clock only at every n-th call, because reading the clock takes longer than a short step of work.
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
