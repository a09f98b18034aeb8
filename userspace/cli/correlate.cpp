// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/correlate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/duration.h"

namespace whylate::cli {
namespace {

/// Index of every id that occurs once; the others are counted.
template <typename T>
std::unordered_map<std::uint64_t, std::size_t> unique_ids(const std::vector<T>& requests,
                                                          std::uint64_t& duplicates,
                                                          std::set<std::uint64_t>& duplicate_ids) {
  std::unordered_map<std::uint64_t, std::size_t> index;
  index.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!index.emplace(requests[i].id, i).second) duplicate_ids.insert(requests[i].id);
  }
  for (const std::uint64_t id : duplicate_ids) index.erase(id);
  duplicates = duplicate_ids.size();
  return index;
}

struct Pair {
  const HostRequest* host;
  const ClientRequest* client;
};

/// One clock stamped both sides if the responder's interval lies inside the client's. Two hosts'
/// clocks that happen to overlap do not agree like that for request after request. A few may stick
/// out: an arrival that is known only as a bound can lie before the sending.
bool is_shared_clock(const std::vector<Pair>& pairs) {
  std::size_t inside = 0;
  std::size_t judged = 0;
  for (const Pair& pair : pairs) {
    if (!pair.host->complete || !pair.client->received_ns) continue;
    ++judged;
    if (pair.client->sent_ns <= pair.host->start_ns &&
        pair.host->end_ns <= *pair.client->received_ns) {
      ++inside;
    }
  }
  return judged > 0 && judged - inside <= judged / 100;
}

/// For each id: the request sent just before it, if that had no reply yet when this one was due.
std::unordered_map<std::uint64_t, std::uint64_t> unanswered_predecessors(
    const std::vector<ClientRequest>& requests) {
  std::vector<const ClientRequest*> by_time;
  by_time.reserve(requests.size());
  for (const ClientRequest& request : requests) by_time.push_back(&request);
  std::stable_sort(
      by_time.begin(), by_time.end(),
      [](const ClientRequest* a, const ClientRequest* b) { return a->sent_ns < b->sent_ns; });
  std::unordered_map<std::uint64_t, std::uint64_t> found;
  for (std::size_t i = 1; i < by_time.size(); ++i) {
    const ClientRequest& before = *by_time[i - 1];
    const ClientRequest& request = *by_time[i];
    if (!request.intended_ns || !before.received_ns) continue;
    // The reply came while this one was overdue: a client that waits for replies was held up by it.
    if (*before.received_ns > *request.intended_ns && *before.received_ns <= request.sent_ns) {
      found.emplace(request.id, before.id);
    }
  }
  return found;
}

void explain(CorrelatedRequest& row, const HostRequest& host) {
  const std::uint64_t late = row.client_late_ns;
  if (late > 0 && late >= row.host_ns.value_or(0) && late >= row.client_ns - late) {
    row.explained_by = ExplainedBy::kClient;
    row.text = fmt::format("the client itself sent it {} late: the responder is not to blame.",
                           format_duration(late));
    if (row.unanswered_predecessor) {
      row.text += fmt::format(" When it was due, id {} sent before it still had no reply.",
                              *row.unanswered_predecessor);
    }
    return;
  }
  if (!row.host_ns) {
    row.text = "the responder's record of it is incomplete: nothing is blamed.";
    return;
  }
  if (!row.rest_ns) {
    row.text = "the responder's figure is longer than the client's: they do not fit together.";
    return;
  }
  if (late >= *row.host_ns && late >= *row.rest_ns && late > 0) {
    row.explained_by = ExplainedBy::kClient;
    row.text = fmt::format("the largest part is the client's own: it sent it {} late.",
                           format_duration(late));
    return;
  }
  if (*row.host_ns >= *row.rest_ns) {
    row.explained_by = ExplainedBy::kHost;
    row.stage = host.stage;
    row.culprit = host.culprit;
    row.text = host.text;
    return;
  }
  row.explained_by = ExplainedBy::kRest;
  if (row.before_ns && row.after_ns) {
    // One clock for both sides tells which end of the path it was.
    row.text = *row.before_ns >= *row.after_ns
                   ? fmt::format("{} passed between sending and the first mark.",
                                 format_duration(*row.before_ns))
                   : fmt::format("{} passed after the reply had left, until the client had it.",
                                 format_duration(*row.after_ns));
    return;
  }
  row.text = fmt::format("{} passed outside this host or before the first mark.",
                         format_duration(*row.rest_ns));
}

CorrelatedRequest join(const Pair& pair, bool shared_clock) {
  const ClientRequest& client = *pair.client;
  const HostRequest& host = *pair.host;
  CorrelatedRequest row;
  row.id = client.id;
  const std::uint64_t received_ns = *client.received_ns;
  row.client_late_ns = client.intended_ns ? client.sent_ns - *client.intended_ns : 0;
  row.client_ns = received_ns - client.intended_ns.value_or(client.sent_ns);
  if (!host.complete) return row;
  row.host_ns = host.total_ns;
  const std::uint64_t away_ns = received_ns - client.sent_ns;
  if (host.total_ns > away_ns) return row;
  row.rest_ns = away_ns - host.total_ns;
  if (shared_clock && client.sent_ns <= host.start_ns && host.end_ns <= received_ns) {
    row.before_ns = host.start_ns - client.sent_ns;
    row.after_ns = received_ns - host.end_ns;
  }
  return row;
}

}  // namespace

Correlation correlate(const HostFile& host, const ClientFile& client, std::size_t slowest) {
  Correlation result;
  result.host_requests = host.requests.size() + host.without_id;
  result.client_requests = client.requests.size();
  result.host_without_id = host.without_id;
  result.host_lost_something = host.lost_something;
  result.host_has_summary = host.has_summary;

  std::set<std::uint64_t> host_twice;
  std::set<std::uint64_t> client_twice;
  const auto host_index = unique_ids(host.requests, result.duplicate_ids_host, host_twice);
  const auto client_index = unique_ids(client.requests, result.duplicate_ids_client, client_twice);

  std::vector<Pair> pairs;
  for (const auto& [id, at] : client_index) {
    const ClientRequest& request = client.requests[at];
    if (!request.received_ns) ++result.unanswered;
    if (request.intended_ns) result.from_intended = true;
    const auto it = host_index.find(id);
    if (it != host_index.end()) {
      pairs.push_back({&host.requests[it->second], &request});
    } else if (host_twice.count(id) == 0) {
      ++result.only_client;
    }
  }
  for (const auto& [id, at] : host_index) {
    if (client_index.count(id) == 0 && client_twice.count(id) == 0) ++result.only_host;
  }
  result.joined = pairs.size();
  result.shared_clock = is_shared_clock(pairs);

  const auto predecessors = unanswered_predecessors(client.requests);
  std::vector<std::pair<CorrelatedRequest, const HostRequest*>> rows;
  for (const Pair& pair : pairs) {
    if (!pair.client->received_ns) continue;
    rows.emplace_back(join(pair, result.shared_clock), pair.host);
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    if (a.first.client_ns != b.first.client_ns) return a.first.client_ns > b.first.client_ns;
    return a.first.id < b.first.id;
  });
  if (rows.size() > slowest) rows.resize(slowest);
  for (auto& [row, host_request] : rows) {
    const auto it = predecessors.find(row.id);
    if (it != predecessors.end()) row.unanswered_predecessor = it->second;
    explain(row, *host_request);
    result.slowest.push_back(std::move(row));
  }
  return result;
}

}  // namespace whylate::cli
