import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// A Redis that dies, hangs, loses its scripts, cuts connections, is full, or is configured as a cache.
@Suite(.serialized, .timeLimit(.minutes(2))) struct RedisFaultTests {
    /// The error code of a failure; nil on success.
    private func failure(_ body: () async throws -> Void) async -> RedisError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? RedisError)?.code
        }
    }

    // The control Redis is restarted.
    @Test func workersClaimAgainWhenTheirRedisIsBackAndNoJobIsLost() async throws {
        let options = RedisServerProcess.Options(settings: ["appendonly yes", "appendfsync always"])
        try await FaultCluster.runWithOrigin(options) { (cluster, origin) async throws in
            let workers = try await cluster.start(workers: [FaultCluster.hasty, FaultCluster.hasty])
            origin.hold()
            let submit = try cluster.submit((0..<16).map { origin.url("/\($0).png") })
            try await cluster.wait(untilRunning: 16)
            await cluster.server.crash()
            origin.release()
            try await cluster.server.startAgain()
            let first = try await cluster.summary(of: submit)
            #expect(first.jobs == 16 && first.done == 16 && first.failed == 0)
            let urls = (0..<8).map { origin.url("/again-\($0).png") }
            let again = try cluster.submit(urls, ["--ledger", cluster.directory.path + "/again.jsonl"])
            let second = try await cluster.summary(of: again)
            #expect(second.jobs == 8 && second.done == 8)
            let names = try cluster.lines(of: "again.jsonl", as: JobOutcome.self).compactMap(\.worker)
            #expect(names.count == 8)
            #expect(names.allSatisfy { name in workers.contains { name.contains(":\($0.pid):") } }, "\(names)")
            for worker in workers {
                worker.send(SIGTERM)
                #expect(await worker.ending().code == 0, "\(worker.errors)")
            }
        }
    }

    // Acknowledged writes may be lost with a slow disk or in a failover.
    @Test func aClientThatWaitsSubmitsJobsAgainThatRedisLost() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            origin.hold()
            let urls = (0..<4).map { origin.url("/\($0).png") }
            let submit = try cluster.submit(urls, ["--batch", "lost"])
            try await cluster.wait(untilRunning: 4)
            let batch = "megaton:{default}:2:batch:lost"
            try await cluster.wait(for: ["batch:lost"]) { client in
                try await client.send(["HGET", .string(batch), "closed"]).int == 1
            }
            // As if a replica without any of it had taken over.
            try await cluster.client.send(["FLUSHALL"])
            origin.release()
            let ending = await submit.ending()
            #expect(ending.code == 0 && ending.errors.contains("lost 4 jobs of the batch lost"), "\(ending.errors)")
            let summary = try JSONDecoder().decode(FaultCluster.Summary.self, from: Data(ending.output.utf8))
            #expect(summary.jobs == 4 && summary.done == 4 && summary.failed == 0)
        }
    }

    /// Fault: the ledger lacked lines, and the exit code was 0.
    @Test func jobsWithoutAnOutcomeAreNamed() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            origin.hold()
            let ledger = cluster.directory.path + "/ledger.jsonl"
            let urls = (0..<4).map { origin.url("/\($0).png") }
            let submit = try cluster.submit(urls, ["--batch", "b", "--ledger", ledger])
            try await cluster.wait(untilRunning: 4)
            // Its reader sleeps while another program takes an outcome.
            submit.send(SIGSTOP)
            origin.release()
            try await cluster.wait(untilDone: 4)
            let taken = try await cluster.client.send(["LPOP", "megaton:{default}:2:results:b"]).string ?? ""
            let id = try #require(JSONDecoder().decode(JobOutcome.self, from: Data(taken.utf8)).id)
            submit.send(SIGCONT)
            let ending = await submit.ending()
            #expect(ending.code == 69, "\(ending.errors)")
            #expect(ending.errors.contains("1 outcome is missing") && ending.errors.contains("Missing: \(id)."))
            let ids = try cluster.lines(of: "ledger.jsonl", as: JobOutcome.self).compactMap(\.id)
            #expect(ids.count == 3 && !ids.contains(id))
        }
    }

    // All connections are cut repeatedly.
    @Test func aBatchSurvivesThatItsConnectionsAreCutAgainAndAgain() async throws {
        try await FaultCluster.runWithOrigin(delay: .milliseconds(20)) { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty, FaultCluster.hasty])
            let submit = try cluster.submit((0..<200).map { origin.url("/\($0).png") })
            for count in [20, 60, 100, 140] {
                try await cluster.wait(untilDone: count)
                // All connections but the one that sends the command.
                for type in ["normal", "pubsub"] {
                    try await cluster.client.send(["CLIENT", "KILL", "TYPE", .string(type)])
                }
            }
            let summary = try await cluster.summary(of: submit)
            #expect(summary.jobs == 200 && summary.done == 200 && summary.failed == 0)
            #expect(try await cluster.statistic("done") == 200)
            #expect(try await cluster.leftovers() == [])
        }
    }

    // A write may be the first to notice that the connection has ended.
    @Test func aCommandWhoseConnectionIsCutWhileItIsSentEnds() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let client = cluster.server.client("cut")
            defer { client.close() }
            for _ in 0..<500 {
                let id = try await client.send(["CLIENT", "ID"]).int ?? -1
                async let killed = cluster.client.send(["CLIENT", "KILL", "ID", .int(id)])
                let code = await failure { try await client.send(["PING"]) }
                _ = try await killed
                #expect(code == nil || code == .connectionClosed)
                // Whatever the result, the next command starts on a working connection.
                while await failure({ try await client.send(["PING"]) }) != nil {}
            }
        }
    }

    // A blocking call is overdue.
    @Test(arguments: [["DEBUG", "SLEEP", "1"], ["BLPOP", "nothing", "30"]])
    func aConnectionWithAnOverdueReplyIsClosedAndNeverUsedAgain(_ words: [String]) async throws {
        let options = RedisServerProcess.Options(settings: ["enable-debug-command local"])
        try await FaultCluster.run(options) { (cluster) async throws in
            let client = cluster.server.client("hasty")
            defer { client.close() }
            let before = try await client.send(["CLIENT", "ID"]).int ?? -1
            let command = RedisCommand(words.map { .string($0) })
            let code = await failure { try await client.send(command, timeout: .milliseconds(200)) }
            #expect(code == .timeout)
            #expect(try await client.send(["ECHO", "later"]).string == "later")
            let after = try await client.send(["CLIENT", "ID"]).int ?? -1
            #expect(after != before)
            // The server notices the end of the old connection a little later.
            let clients = try await cluster.poll { $0.contains("id=\(before) ") ? nil : $0 }
            #expect(clients.contains("id=\(after) "))
        }
    }

    // The control Redis is full.
    @Test func aFullControlRedisTakesNothingNewAndLetsTheRunningFinish() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            origin.hold()
            for index in 0..<4 { try await cluster.push(origin.url("/\(index).png"), id: "job-\(index)") }
            try await cluster.wait(untilRunning: 4)
            try await cluster.client.send(["CONFIG", "SET", "maxmemory", "1"])
            let code = await failure { try await cluster.push(origin.url("/late.png"), id: "late") }
            #expect(code == .outOfMemory)
            origin.release()
            try await cluster.wait(untilDone: 4)
            try await cluster.client.send(["CONFIG", "SET", "maxmemory", "0"])
            try await cluster.push(origin.url("/late.png"), id: "late")
            try await cluster.wait(untilDone: 5)
            #expect(try await cluster.leftovers() == [])
            #expect(try await cluster.client.send(["EXISTS", "megaton:{default}:2:dead"]).int == 0)
        }
    }

    // A cache a tenth of the size of the work.
    @Test func aCacheMuchSmallerThanTheWorkEvictsAndLosesNoJob() async throws {
        let options = RedisServerProcess.Options(settings: ["maxmemory 8mb", "maxmemory-policy allkeys-lru"])
        // 200 originals of 410 KB are ten times the cache's limit. Each has two chunks, which are read one after the
        // other: one may be evicted in between, and half an entry must not be served.
        let image = TestImage.quarters(width: 320, height: 320)
        try await RedisServerProcess.run(options) { (cache) async throws in
            try await FaultCluster.runWithOrigin(image: image) { (cluster, origin) async throws in
                // Client buffers count as memory too: few jobs at a time, or there is no room for entries.
                let options = ["--concurrency", "2", "--cache-redis", cache.url, "--cache-policy", "all"]
                let workers = try await cluster.start(workers: [options, options])
                let urls = (0..<200).map { origin.url("/\($0).png") }
                try await requireSameOutputs(of: urls, ["--size", "48x48"], in: cluster)
                // Reads entries that are still there, while others are evicted.
                let last = Array(urls.suffix(40).reversed())
                try await requireSameOutputs(of: last, ["--size", "32x32"], in: cluster)
                for worker in workers {
                    worker.send(SIGTERM)
                    #expect(await worker.ending().code == 0, "\(worker.errors)")
                }
                #expect(try await cluster.statistic("done") == 240)
                #expect(try await cluster.leftovers() == [])
                let cacheClient = cache.client()
                defer { cacheClient.close() }
                let evicted = try await evictedKeys(cacheClient)
                #expect(evicted > 0)
                let statistics = try await cacheStatistics(cluster, cache)
                #expect(statistics.evictions == evicted && statistics.damaged == 0)
                // Some originals of the second batch were cached.
                #expect(statistics.hits > 0 && statistics.hits < 40)
                try requireRatios(statistics, jobs: 240, sources: 200, requests: origin.total)
                #expect(try await evictedKeys(cluster.client) == 0)
            }
        }
    }

    /// Submits one image under many URLs in one size: all outputs must be whole and the same.
    private func requireSameOutputs(of urls: [URL], _ options: [String], in cluster: FaultCluster) async throws {
        let ledger = "ledger-\(urls.count).jsonl"
        let submit = try cluster.submit(urls, options + ["--ledger", "\(cluster.directory.path)/\(ledger)"])
        let summary = try await cluster.summary(of: submit)
        #expect(summary.jobs == urls.count && summary.done == urls.count)
        let outputs = try cluster.lines(of: ledger, as: JobOutcome.self).flatMap(\.outputs)
        #expect(outputs.count == urls.count)
        #expect(Set(outputs.map(\.sha256)).count == 1)
    }

    /// Compares the output of `megaton stats` with the requests that the origin received.
    private func requireRatios(_ statistics: ReportedStatistics, jobs: Int, sources: Int, requests: Int) throws {
        // Each job looks up its rendition, which is a miss, and then its original, which is a hit or is fetched. A
        // lookup that failed for lack of room counts in `fail_open`.
        #expect(statistics.hits == jobs - requests)
        #expect(statistics.misses + statistics.failOpen == jobs + requests)
        #expect(statistics.originFetches == requests)
        let hitRatio = Double(statistics.hits) / Double(statistics.hits + statistics.misses)
        #expect(abs(statistics.hitRatio - hitRatio) < 1e-9)
        // The number of sources is an estimate to 1 % (HyperLogLog); without any eviction the ratio would be 1.
        #expect(requests > sources)
        #expect(abs(statistics.duplicateRatio / (Double(requests) / Double(sources)) - 1) < 0.03)
    }

    /// A part of the output of `megaton stats --json`.
    private struct ReportedStatistics: Decodable {
        let hits: Int
        let misses: Int
        let hitRatio: Double
        let duplicateRatio: Double
        let originFetches: Int
        let failOpen: Int
        let evictions: Int
        let damaged: Int
    }

    private func cacheStatistics(
        _ cluster: FaultCluster,
        _ cache: RedisServerProcess
    ) async throws -> ReportedStatistics {
        let stats = try ProgramUnderTest.megaton([
            "stats", "--json", "--redis", cluster.server.url, "--cache-redis", cache.url,
        ])
        let ending = await stats.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(ReportedStatistics.self, from: Data(ending.output.utf8))
    }

    private func evictedKeys(_ client: RedisClient) async throws -> Int {
        let info = try await client.send(["INFO", "stats"]).string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("evicted_keys:") }
        return try #require(line.flatMap { Int($0.dropFirst("evicted_keys:".count)) })
    }

    // A control Redis with `allkeys-lru`.
    @Test(arguments: ["worker", "coordinator"])
    func aRedisThatWouldEvictJobsIsRefused(_ command: String) async throws {
        let options = RedisServerProcess.Options(settings: ["maxmemory-policy allkeys-lru"])
        try await RedisServerProcess.run(options) { (server) async throws in
            let ending = await (try ProgramUnderTest.megaton([command, "--redis", server.url])).ending()
            #expect(ending.code == 64)
            #expect(ending.errors.contains("maxmemory-policy") && ending.errors.contains("allkeys-lru"))
        }
    }

    // SCRIPT FLUSH during a run.
    @Test func forgottenScriptsAreLoadedAgainWithoutAWord() async throws {
        try await FaultCluster.runWithOrigin(delay: .milliseconds(20)) { (cluster, origin) async throws in
            // With the default lease, so that no job is late for another reason.
            let workers = try await cluster.start(workers: [["--concurrency", "8"], ["--concurrency", "8"]])
            let submit = try cluster.submit((0..<100).map { origin.url("/\($0).png") })
            for count in [20, 50, 80] {
                try await cluster.wait(untilDone: count)
                try await cluster.client.send(["SCRIPT", "FLUSH", "SYNC"])
            }
            let summary = try await cluster.summary(of: submit)
            #expect(summary.jobs == 100 && summary.done == 100 && summary.failed == 0)
            for worker in workers {
                worker.send(SIGTERM)
                let ending = await worker.ending()
                #expect(ending.code == 0)
                #expect(!ending.errors.contains(" error ") && !ending.errors.contains("NOSCRIPT"), "\(ending.errors)")
            }
            #expect(try await cluster.statistic("stalled") == 0)
        }
    }

    // A Redis that hangs.
    @Test func aRedisThatHangsForThreeSecondsCostsNoLease() async throws {
        let settings = RedisServerProcess.Options(settings: ["enable-debug-command local"])
        try await FaultCluster.runWithOrigin(settings, delay: .milliseconds(50)) { (cluster, origin) async throws in
            let options = ["--concurrency", "4", "--lease", "15"]
            let workers = try await cluster.start(workers: [options, options])
            let submit = try cluster.submit((0..<60).map { origin.url("/\($0).png") })
            try await cluster.wait(untilDone: 10)
            try await cluster.client.send(["DEBUG", "SLEEP", "3"], timeout: .seconds(60))
            let summary = try await cluster.summary(of: submit)
            #expect(summary.jobs == 60 && summary.done == 60 && summary.failed == 0)
            for worker in workers {
                worker.send(SIGTERM)
                #expect(await worker.ending().code == 0, "\(worker.errors)")
            }
            #expect(try await cluster.statistic("stalled") == 0)
            #expect(try await cluster.lateEnds() == 0)
        }
    }
}
