// The heart of a transformer layer in tensor parallelism, as one call: sum the ranks' partial
// results, add the residual stream, normalise by the root mean square, scale by gamma.
//
//   residual_out = sum over ranks of in + residual_in
//   out          = residual_out / sqrt(mean(residual_out^2) + epsilon) * gamma
#include <cmath>
#include <cstdio>
#include <lamppost/communicator.hpp>
#include <thread>
#include <vector>

namespace {

constexpr int kRankCount = 4;
constexpr int kTokens = 3;
constexpr int kHidden = 1000;  // any number; rows of whole 16 bytes take the fast path
constexpr float kEpsilon = 1e-6f;

/// A rank's partial result, the residual stream (equal on all ranks), and the norm's weight.
float input(int rank, int i) { return std::sin(0.37f * static_cast<float>(i + 1000 * rank)); }
float residual(int i) { return 0.5f * std::cos(0.11f * static_cast<float>(i)); }
float gamma_of(int column) { return 1.0f + 0.001f * static_cast<float>(column); }

std::vector<float> plain_result() {
  std::vector<float> out(kTokens * kHidden);
  for (int token = 0; token < kTokens; ++token) {
    std::vector<double> row(kHidden);
    double squares = 0;
    for (int column = 0; column < kHidden; ++column) {
      const int i = token * kHidden + column;
      for (int rank = 0; rank < kRankCount; ++rank) row[column] += input(rank, i);
      row[column] += residual(i);
      squares += row[column] * row[column];
    }
    const double scale = 1 / std::sqrt(squares / kHidden + kEpsilon);
    for (int column = 0; column < kHidden; ++column) {
      out[token * kHidden + column] = static_cast<float>(row[column] * scale * gamma_of(column));
    }
  }
  return out;
}

/// One rank: returns true if its result is right.
bool run_rank(lamppost::Communicator& communicator) {
  const int rank = communicator.rank();
  std::vector<float> in(kTokens * kHidden), out(in.size()), stream(in.size()), gamma(kHidden);
  for (int i = 0; i < kTokens * kHidden; ++i) {
    in[i] = input(rank, i);
    stream[i] = residual(i);
  }
  for (int column = 0; column < kHidden; ++column) gamma[column] = gamma_of(column);

  // The arguments are one struct: start from the initializer, name what you need.
  lpAllReduceRMSNormArgs args = LP_ALL_REDUCE_RMS_NORM_INITIALIZER;
  args.in = in.data();
  args.out = out.data();
  args.residual_in = stream.data();
  args.residual_out = stream.data();  // in place: the residual stream moves on to the next layer
  args.weight = gamma.data();
  args.type = LP_FLOAT32;
  args.weight_type = LP_FLOAT32;
  args.tokens = kTokens;
  args.hidden = kHidden;
  args.epsilon = kEpsilon;

  // Enqueue, wait for the stream, ask whether the call itself succeeded.
  lamppost::Status status = communicator.all_reduce_rms_norm(args);
  if (status.ok()) status = communicator.synchronize();
  if (status.ok()) status = communicator.async_error();
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, status.message().c_str());
    // The health says more: which call, which peer, how long, what the peers were doing.
    const lamppost::Result<lpHealth> health = communicator.health();
    if (health.ok()) std::fprintf(stderr, "%s\n", lamppost::to_string(health.value()).c_str());
    return false;
  }

  const std::vector<float> expected = plain_result();
  float largest_error = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float error = std::fabs(out[i] - expected[i]);
    if (!(error <= largest_error)) largest_error = error;  // keeps a NaN too
  }
  const bool right = largest_error < 1e-5f;
  if (rank == 0) {
    std::printf("residual: %.6f %.6f %.6f ...\n", stream[0], stream[1], stream[2]);
    std::printf("out:      %.6f %.6f %.6f ...\n", out[0], out[1], out[2]);
    std::printf("loop:     %.6f %.6f %.6f ...\n", expected[0], expected[1], expected[2]);
  }
  if (!right) std::printf("rank %d: wrong by up to %g\n", rank, largest_error);
  return right;
}

}  // namespace

int main() {
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = LP_BACKEND_HOST;
  auto created = lamppost::Communicator::create_all(kRankCount, &config);
  if (!created.ok()) {
    std::fprintf(stderr, "create_all: %s\n", created.status().message().c_str());
    return 1;
  }
  std::vector<lamppost::Communicator> communicators = created.take();
  std::vector<char> right(kRankCount, 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRankCount; ++rank) {
    threads.emplace_back([&, rank] { right[rank] = run_rank(communicators[rank]) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char one : right) {
    if (one == 0) return 1;
  }
  std::printf("all %d ranks agree with the plain loop\n", kRankCount);
  return 0;
}
