// Distribution of many poses over threads. The chunks have equal size, and a free thread takes the next chunk.
//
// The result of a chunk depends only on the chunk. The number of threads therefore does not change results.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "numerics/clock.hpp"
#include "numerics/pack.hpp"

namespace eim {

// Calls work(index of the chunk, first, last) for each chunk of n items. If calls throw, one of their exceptions is
// rethrown after all threads have ended.
template <class Work>
inline void for_chunks(Index n, Index size, int n_threads, Work work) {
    const Index n_chunks = (n + size - 1) / size;
    std::atomic<Index> following = 0;
    std::exception_ptr failure;
    std::mutex guard;
    const auto run = [&] {
        try {
            for (Index chunk = following++; chunk < n_chunks; chunk = following++) {
                work(chunk, chunk * size, std::min(n, (chunk + 1) * size));
            }
        } catch (...) {
            const std::lock_guard lock(guard);
            failure = std::current_exception(), following = n_chunks;
        }
    };
    std::vector<std::thread> others;
    try {
        for (int k = 1; k < std::min<Index>(n_threads, n_chunks); ++k) others.emplace_back(run);
    } catch (const std::system_error&) {  // no more threads are available; the existing threads do the work
    }
    run();
    for (std::thread& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

// Calls work(index of the pose, deadline of the pose) for n poses. Each pose may use an equal share of the remaining
// time. After the deadline, a time of the steady clock [s], late(index) is called for each remaining pose instead. The
// first pose is never late.
template <class Work, class Late>
inline void for_poses(Index n, Index size, int n_threads, double deadline, Work work, Late late) {
    for_chunks(n, size, n_threads, [&](Index, Index first, Index last) {
        for (Index i = first; i < last; ++i) {
            const double now = steady_seconds(), left = deadline - now;
            if (i > 0 && left <= 0.0) {
                late(i);
            } else {
                work(i, now + left * std::min(1.0, double(n_threads) / double(n - i)));
            }
        }
    });
}

}  // namespace eim
