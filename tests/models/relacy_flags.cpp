// Memory orders of the flag protocols, under the C++ memory model.
//
// The spin models take every store to be seen at once and in order. This program shows which orders
// the protocols need when that is not so: relacy runs each model under many schedules and lets
// loads return any value the memory model allows; it reports data races on plain memory and failed
// assertions. Three protocols:
//   EpochFlag     two ranks exchange plain data: flag release / acquire, then a "done" handshake
//                 before the data may be overwritten.
//   HealthRecord  one lane wins the claim and writes fields, VALID (release), FAILED (release);
//                 readers outside poll VALID or FAILED with acquire. Fields plain or relaxed.
//   ArrivalWord   blocks write plain memory and arrive by an acq_rel add; the last one out reads
//                 what the others wrote.
// The correct versions must hold for all schedules tried, each planted fault must be caught.
//
// Scopes (block, device, system) and accesses of more than one word are not part of these models.
// relacy replaces the global operator new, and ends in a double free when its output stream is a
// string stream: so this is an executable of its own, without sanitizers, with the default stream.

#include <relacy/relacy.hpp>

#include <chrono>
#include <cstdio>
#include <string>

namespace {

// A planted fault is chosen at run time, before a search: one instantiation of relacy per protocol.

enum class EpochFault { kNone, kRelaxedFlag, kRelaxedPoll, kNoDoneHandshake };

struct EpochFlag : rl::test_suite<EpochFlag, 2> {
  static inline EpochFault fault = EpochFault::kNone;
  static constexpr unsigned kEpochs = 2;

  rl::atomic<unsigned> ready[2];
  rl::atomic<unsigned> done[2];
  rl::var<unsigned> data[2];

  void before() {
    for (unsigned rank = 0; rank < 2; ++rank) {
      ready[rank]($).store(0, rl::mo_relaxed);
      done[rank]($).store(0, rl::mo_relaxed);
      data[rank]($) = 0;
    }
  }

  static unsigned value_of(unsigned rank, unsigned epoch) { return epoch * 10 + rank; }

  void wait_for(rl::atomic<unsigned>& flag, unsigned epoch, rl::memory_order order) {
    rl::linear_backoff backoff;
    while (static_cast<int>(flag($).load(order) - epoch) < 0) backoff.yield($);
  }

  void thread(unsigned rank) {
    const auto flag_order = fault == EpochFault::kRelaxedFlag ? rl::mo_relaxed : rl::mo_release;
    const auto poll_order = fault == EpochFault::kRelaxedPoll ? rl::mo_relaxed : rl::mo_acquire;
    const unsigned peer = 1 - rank;
    for (unsigned epoch = 1; epoch <= kEpochs; ++epoch) {
      data[rank]($) = value_of(rank, epoch);
      ready[rank]($).store(epoch, flag_order);
      wait_for(ready[peer], epoch, poll_order);
      const unsigned seen = data[peer]($);
      RL_ASSERT(seen == value_of(peer, epoch));
      if (fault == EpochFault::kNoDoneHandshake) continue;
      done[rank]($).store(epoch, rl::mo_release);
      wait_for(done[peer], epoch, rl::mo_acquire);
    }
  }
};

enum class RecordFault { kNone, kRelaxedValid, kRelaxedReader, kRelaxedFailed, kValidFirst };
enum class Fields { kPlain, kRelaxedAtomic };

// Threads 0 and 1 are lanes that gave up; thread 2 polls VALID, thread 3 polls FAILED.
struct HealthRecord : rl::test_suite<HealthRecord, 4> {
  static inline RecordFault fault = RecordFault::kNone;
  static inline Fields kind = Fields::kPlain;
  static constexpr unsigned kLanes = 2;
  static constexpr unsigned kFieldCount = 2;

  rl::atomic<unsigned> claim;
  rl::atomic<unsigned> valid;
  rl::atomic<unsigned> failed;
  rl::atomic<unsigned> missing_mask;
  rl::var<unsigned> plain_fields[kFieldCount];
  rl::atomic<unsigned> atomic_fields[kFieldCount];

  void store_field(unsigned index, unsigned value) {
    if (kind == Fields::kPlain) {
      plain_fields[index]($) = value;
    } else {
      atomic_fields[index]($).store(value, rl::mo_relaxed);
    }
  }

  unsigned load_field(unsigned index) {
    if (kind == Fields::kPlain) return plain_fields[index]($);
    return atomic_fields[index]($).load(rl::mo_relaxed);
  }

  void before() {
    claim($).store(0, rl::mo_relaxed);
    valid($).store(0, rl::mo_relaxed);
    failed($).store(0, rl::mo_relaxed);
    missing_mask($).store(0, rl::mo_relaxed);
    for (unsigned index = 0; index < kFieldCount; ++index) store_field(index, 0);
  }

  void after() { RL_ASSERT(missing_mask($).load(rl::mo_relaxed) == (1u << kLanes) - 1); }

  void write_valid() {
    valid($).store(1, fault == RecordFault::kRelaxedValid ? rl::mo_relaxed : rl::mo_release);
  }

  void give_up(unsigned lane) {
    missing_mask($).fetch_or(1u << lane, rl::mo_relaxed);
    unsigned unclaimed = 0;
    const bool won = claim($).compare_exchange_strong(unclaimed, lane + 1, rl::mo_relaxed);
    if (!won) return;
    if (fault == RecordFault::kValidFirst) write_valid();
    for (unsigned index = 0; index < kFieldCount; ++index) store_field(index, lane + 1);
    if (fault != RecordFault::kValidFirst) write_valid();
    failed($).store(1, fault == RecordFault::kRelaxedFailed ? rl::mo_relaxed : rl::mo_release);
  }

  void wait_for(rl::atomic<unsigned>& word) {
    const auto order = fault == RecordFault::kRelaxedReader ? rl::mo_relaxed : rl::mo_acquire;
    rl::linear_backoff backoff;
    while (word($).load(order) == 0) backoff.yield($);
  }

  void check_record() {
    const unsigned name = load_field(0);
    RL_ASSERT(name == 1 || name == 2);
    for (unsigned index = 1; index < kFieldCount; ++index) RL_ASSERT(load_field(index) == name);
    RL_ASSERT(missing_mask($).load(rl::mo_relaxed) & (1u << (name - 1)));
  }

  void thread(unsigned index) {
    if (index < kLanes) {
      give_up(index);
    } else if (index == kLanes) {
      wait_for(valid);
      check_record();
    } else {
      wait_for(failed);
      RL_ASSERT(valid($).load(rl::mo_relaxed) == 1);
      check_record();
    }
  }
};

struct ArrivalWord : rl::test_suite<ArrivalWord, 3> {
  static inline rl::memory_order arrival_order = rl::mo_acq_rel;
  static constexpr unsigned kGrid = 3;
  static constexpr unsigned long long kSequence = 7;
  static constexpr unsigned long long word(unsigned long long sequence, unsigned arrivals) {
    return sequence << 32 | arrivals;
  }

  rl::atomic<unsigned long long> arrivals;
  rl::var<unsigned> written[kGrid];

  void before() {
    arrivals($).store(word(kSequence, 0), rl::mo_relaxed);
    for (auto& value : written) value($) = 0;
  }

  void after() { RL_ASSERT(arrivals($).load(rl::mo_relaxed) == word(kSequence + 1, 0)); }

  void thread(unsigned block) {
    written[block]($) = block + 1;
    const auto before_add = arrivals($).fetch_add(1, arrival_order);
    RL_ASSERT(before_add >> 32 == kSequence);
    const bool last_out = before_add == word(kSequence, kGrid - 1);
    if (!last_out) return;
    for (unsigned other = 0; other < kGrid; ++other) RL_ASSERT(written[other]($) == other + 1);
    arrivals($).store(word(kSequence + 1, 0), rl::mo_release);
  }
};

constexpr unsigned kRandomIterations = 10000;

int failures = 0;

struct Search {
  bool held;
  bool fault_found;  // a data race or a failed assertion, not a deadlock
  unsigned long long iterations;
  double seconds;
};

template <typename Model>
Search search(rl::scheduler_type_e scheduler, unsigned switch_bound = 0) {
  rl::test_params params;
  params.search_type = scheduler;
  params.iteration_count = kRandomIterations;
  params.context_bound = switch_bound;
  const auto start = std::chrono::steady_clock::now();
  const bool held = rl::simulate<Model>(params);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const bool fault_found = params.test_result == rl::test_result_data_race ||
                           params.test_result == rl::test_result_user_assert_failed;
  return {held, fault_found, params.stop_iteration, elapsed.count()};
}

void report(const char* name, const char* how, const Search& result, bool as_expected) {
  const char* verdict = result.held ? "holds" : "caught";
  if (!result.held && !result.fault_found) verdict = "stuck";
  std::printf("\n%s %-34s %-15s %-6s iterations %8llu  %5.2f s\n", as_expected ? "ok  " : "FAIL",
              name, how, verdict, result.iterations, result.seconds);
  std::fflush(stdout);
  if (!as_expected) ++failures;
}

// A correct version: random schedules, then all schedules with at most `switch_bound` switches from
// a thread that could have gone on.
template <typename Model>
void must_hold(const char* name, unsigned switch_bound) {
  const Search random = search<Model>(rl::random_scheduler_type);
  report(name, "random", random, random.held);
  const Search bounded = search<Model>(rl::fair_context_bound_scheduler_type, switch_bound);
  const std::string how = "all, " + std::to_string(switch_bound) + " switches";
  report(name, how.c_str(), bounded, bounded.held);
}

template <typename Model>
void must_be_caught(const char* name) {
  const Search random = search<Model>(rl::random_scheduler_type);
  report(name, "random", random, random.fault_found);
}

void try_epoch_flag() {
  must_hold<EpochFlag>("epoch flag", 4);
  const auto plant = [](EpochFault fault, const char* name) {
    EpochFlag::fault = fault;
    must_be_caught<EpochFlag>(name);
  };
  plant(EpochFault::kRelaxedFlag, "epoch flag, relaxed flag");
  plant(EpochFault::kRelaxedPoll, "epoch flag, relaxed poll");
  plant(EpochFault::kNoDoneHandshake, "epoch flag, no done handshake");
}

void try_health_record() {
  HealthRecord::kind = Fields::kPlain;
  must_hold<HealthRecord>("record, plain fields", 2);
  HealthRecord::kind = Fields::kRelaxedAtomic;
  must_hold<HealthRecord>("record, relaxed fields", 2);
  const auto plant = [](RecordFault fault, Fields kind, const char* name) {
    HealthRecord::fault = fault;
    HealthRecord::kind = kind;
    must_be_caught<HealthRecord>(name);
  };
  plant(RecordFault::kRelaxedValid, Fields::kPlain, "record, relaxed VALID");
  plant(RecordFault::kRelaxedValid, Fields::kRelaxedAtomic, "record, relaxed VALID and fields");
  plant(RecordFault::kRelaxedReader, Fields::kPlain, "record, relaxed reader");
  plant(RecordFault::kRelaxedFailed, Fields::kPlain, "record, relaxed FAILED");
  plant(RecordFault::kValidFirst, Fields::kRelaxedAtomic, "record, VALID first");
}

void try_arrival_word() {
  must_hold<ArrivalWord>("arrival word", 6);
  const auto plant = [](rl::memory_order order, const char* name) {
    ArrivalWord::arrival_order = order;
    must_be_caught<ArrivalWord>(name);
  };
  plant(rl::mo_relaxed, "arrival word, relaxed");
  plant(rl::mo_release, "arrival word, release only");
  plant(rl::mo_acquire, "arrival word, acquire only");
}

}  // namespace

int main() {
  try_epoch_flag();
  try_health_record();
  try_arrival_word();
  std::printf("\n%s: %d unexpected\n", failures == 0 ? "passed" : "FAILED", failures);
  return failures == 0 ? 0 : 1;
}
