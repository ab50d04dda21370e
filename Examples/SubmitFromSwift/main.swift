import Foundation
import MegatonCluster

// SubmitFromSwift REDIS-URL OUTPUT SOURCE…
let arguments = CommandLine.arguments
guard arguments.count > 3 else { exit(64) }
let (redis, output, sources) = (arguments[1], arguments[2], arguments[3...])

let client = try ClusterClient(redis: redis)
let batch = try await client.submit(sources.map { Job(source: $0, output: output) })
for try await outcome in batch.outcomes {
    print(outcome.status, outcome.source, outcome.outputs.first?.path ?? outcome.error?.message ?? "")
}

let counters = try await batch.counters()
client.close()
exit(counters["done"] == sources.count ? 0 : 2)
