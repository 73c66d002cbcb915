// Runs all checks, and prints "ok NAME" or "FAILED NAME: why" for each check.
#include <cstdio>
#include <exception>

#include "checks.hpp"

std::vector<Check>& all_checks() {
    static std::vector<Check> checks;
    return checks;
}

int main() {
    int n_failed = 0;
    for (const Check& check : all_checks()) {
        try {
            check.run();
            std::printf("ok %s\n", check.name.c_str());
        } catch (const std::exception& error) {
            std::printf("FAILED %s: %s\n", check.name.c_str(), error.what());
            ++n_failed;
        }
        std::fflush(stdout);
    }
    return n_failed > 0;
}
