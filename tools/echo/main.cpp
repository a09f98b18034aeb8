// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "echo/client.h"
#include "echo/client_report.h"
#include "echo/options.h"
#include "echo/server.h"

namespace whylate::echo {
namespace {

int fail(const Error& error) {
  fmt::print(stderr, "whylate-echo: {}\n", error.message);
  return static_cast<int>(error.code);
}

/// Writes to stdout. A reader that went away is not an error; a full disk is.
int put(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return 0;
  if (errno == EPIPE) return 0;
  return fail({ExitCode::kRuntimeError, fmt::format("standard output: {}", std::strerror(errno))});
}

int serve(const ServerOptions& options) {
  auto served = run_server(options);
  return served ? 0 : fail(served.error());
}

int send(const ClientOptions& options) {
  auto run = run_client(options);
  if (!run) return fail(run.error());
  const ClientSummary summary = summarize(*run);
  // The summary first: a file that cannot be written must not cost what was measured.
  const int printed =
      put(options.json ? to_json(options, summary) + "\n" : to_text(options, summary));
  if (summary.oddities.send_errno != 0) {
    fmt::print(stderr, "whylate-echo: {} requests could not be sent: {}\n",
               summary.oddities.send_errors, std::strerror(summary.oddities.send_errno));
  }
  int code = static_cast<int>(exit_code(summary));
  if (printed != 0) code = printed;
  if (!options.requests_file.empty()) {
    auto written =
        write_requests_file(options.requests_file, requests_header(options, *run), run->requests);
    if (!written) code = fail(written.error());
  }
  if (!options.hdr_file.empty()) {
    if (auto written = write_hdr_log(options.hdr_file, options.hdr_tag, *run); !written)
      code = fail(written.error());
  }
  return code;
}

int run(int argc, char** argv) {
  auto command = parse_args(argc, argv);
  if (!command) return fail(command.error());
  if (const auto* help = std::get_if<HelpText>(&*command)) return put(help->text);
  if (const auto* server = std::get_if<ServerOptions>(&*command)) return serve(*server);
  return send(std::get<ClientOptions>(*command));
}

}  // namespace
}  // namespace whylate::echo

int main(int argc, char** argv) { return whylate::echo::run(argc, argv); }
