// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/options.h"

#include <fmt/format.h>
#include <sched.h>

#include <charconv>

#include "echo/options_parse.h"

namespace whylate::echo {

const char* name_of(Proto proto) { return proto == Proto::kTcp ? "tcp" : "udp"; }

Result<std::vector<int>> parse_cpu_list(const std::string& text) {
  const auto bad = [&] {
    return usage(fmt::format("'{}' is not a list of CPUs such as 0,2-3", text));
  };
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc{}) return bad();
    int last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc{}) return bad();
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return bad();
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    at = parsed.ptr;
    if (at == end) return cpus;
    if (*at++ != ',') return bad();
  }
}

Result<std::optional<Interface>> parse_interface(const std::string& text) {
  if (text.empty()) return std::optional<Interface>{};
  auto found = find_interface(text);
  if (!found) return found.error();
  return std::optional<Interface>{*found};
}

Result<Command> parse_args(int argc, const char* const* argv) {
  CLI::App app{"whylate-echo: a responder and a client that time requests (the harness of whylate)",
               "whylate-echo"};
  app.require_subcommand(1);
  RawServer raw_server;
  RawClient raw_client;
  ServerOptions server;
  ClientOptions client;
  CLI::App* server_sub = add_server_options(app, raw_server, server);
  CLI::App* client_sub = add_client_options(app, raw_client, client);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return Command{HelpText{(chosen.empty() ? &app : chosen.front())->help()}};
  } catch (const CLI::ParseError& error) {
    return usage(error.what());
  }
  return server_sub->parsed() ? finish_server_options(*server_sub, raw_server, server)
                              : finish_client_options(*client_sub, raw_client, client);
}

}  // namespace whylate::echo
