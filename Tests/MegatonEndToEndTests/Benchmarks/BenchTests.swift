import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

/// `megaton-bench` with the smallest bounds: the report is complete and consistent, whatever the figures are.
@Suite(.timeLimit(.minutes(3))) struct BenchTests {
    private func bench(_ arguments: [String]) async throws -> (report: [String: Any], errors: String) {
        let ending = await (try ProgramUnderTest.benchmarks(arguments + ["--json"])).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let report = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
        return (try #require(report), ending.errors)
    }

    /// The median of a measurement in ms.
    private func median(_ part: Any?) throws -> Double {
        try #require((part as? [String: Any])?["p50_milliseconds"] as? Double)
    }

    @Test func theQueueWorksOffWhatIsPushed() async throws {
        let (report, _) = try await bench([
            "queue", "--jobs", "1000", "--workers", "1", "--rate", "50", "--seconds", "1",
        ])
        #expect(report["jobs"] as? Int == 1000)
        #expect(try #require(report["jobs_per_second"] as? Double) > 0)
        #expect(try #require(report["p50_milliseconds"] as? Double) > 0)
    }

    @Test func thePipelineHasStagesAndAWhole() async throws {
        let directory = try TestDirectory()
        for index in 0..<2 {
            try directory.write(TestImage.quarters(width: 64, height: 64, seed: UInt8(index)), to: "\(index).png")
        }
        try directory.write(Data("no picture".utf8), to: "broken.png")
        let (report, errors) = try await bench([
            "pipeline", directory.path, "--size", "32", "--format", "jpeg,png", "--seconds", "1", "--threads", "2",
        ])
        #expect(report["images"] as? Int == 2)
        #expect(errors.contains("broken.png is left out"), "\(errors)")
        let stages = try #require(report["stages"] as? [[String: Any]])
        let all = try #require(report["all"] as? [[String: Any]])
        let names = (stages + all).compactMap { $0["stage"] as? String }
        #expect(names == ["header", "decode", "resize", "encode jpeg", "encode png", "all jpeg", "all png"])
        for stage in stages + all {
            #expect(try #require(stage["images_per_second"] as? Double) > 0)
            #expect(try median(stage["latency"]) > 0)
        }
    }

    @Test func waitersAreWokenAndServed() async throws {
        let (report, _) = try await bench(["lock", "--waiters", "5", "--processes", "2", "--rounds", "3"])
        #expect(report["rounds"] as? Int == 3)
        let medians = try ["first", "median", "last", "served"].map { try median(report[$0]) }
        #expect(medians == medians.sorted() && medians[0] > 0, "\(medians)")
    }

    @Test func aGivenRedisIsLeftWithNothingThatStays() async throws {
        try await RedisServerProcess.run { (server) async throws in
            _ = try await bench([
                "lock", "--waiters", "2", "--processes", "1", "--rounds", "1", "--redis", server.url,
            ])
            let client = server.client()
            defer { client.close() }
            let keys = try await client.send(["KEYS", "*"]).array?.compactMap(\.string) ?? []
            #expect(!keys.isEmpty, "it was asked")
            for key in keys {
                #expect(try await client.send(["TTL", .string(key)]).int ?? -1 > 0, "\(key)")
            }
        }
    }

    @Test func theCachesFindWhatWasPut() async throws {
        let (report, _) = try await bench(["cache", "--sizes", "300k", "--seconds", "1", "--concurrency", "2"])
        let rows = try #require(report["rows"] as? [[String: Any]])
        let names = rows.map { "\($0["cache"] ?? "") \($0["operation"] ?? "")" }
        #expect(names == ["redis put", "redis get", "disk put", "disk get", "memory put", "memory get"])
        for row in rows {
            #expect(row["bytes"] as? Int == 300 << 10 && row["misses"] as? Int == 0, "\(row)")
            #expect(try #require(row["entries_per_second"] as? Double) > 0)
        }
    }

    @Test func aFleetThatPretendsWorksAQueueThatIsReal() async throws {
        let (report, _) = try await bench([
            "cluster", "--simulated-workers", "20", "--jobs", "400", "--render-ms", "5", "--seconds", "1",
            "--rate", "50", "--hosts", "3",
        ])
        #expect(report["simulated_workers"] as? Int == 20)
        let backlog = try #require(report["backlog"] as? [String: Any])
        #expect(try #require(backlog["jobs"] as? Int) > 0)
        // Claims and completions are batched, and a permit of a host serves several jobs: how many depends on the load.
        #expect(try #require(backlog["scripts_per_job"] as? Double) > 0)
        #expect(try #require(backlog["redis_cpu_seconds"] as? Double) > 0)
        let steady = try #require(report["steady"] as? [String: Any])
        #expect(steady["jobs"] as? Int == 50)
        #expect(try median(report["push_to_start"]) > 0)
        #expect(try #require(report["workers_of_one_redis"] as? Double) > 0)
    }

    @Test func packsAreCountedByTheirSources() async throws {
        let (report, _) = try await bench([
            "cluster", "--simulated-workers", "4", "--concurrency", "4", "--jobs", "1000", "--render-ms", "0.001",
            "--seconds", "1", "--rate", "100", "--pack", "64",
        ])
        #expect(report["pack"] as? Int == 64)
        let backlog = try #require(report["backlog"] as? [String: Any])
        #expect(try #require(backlog["jobs"] as? Int) > 0)
        let steady = try #require(report["steady"] as? [String: Any])
        #expect(steady["jobs"] as? Int == 100)
    }

    /// The servers of a part of a report: their names, and the sum of a figure.
    private func servers(_ part: Any?, _ figure: String) throws -> (names: [String], sum: Double) {
        let usage = try #require(part as? [String: Any])
        let servers = try #require(usage["servers"] as? [[String: Any]])
        return (servers.compactMap { $0["name"] as? String }, servers.reduce(0) { $0 + ($1[figure] as? Double ?? 0) })
    }

    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it"))
    func aQueueWithShardsOnSeveralServersIsMeasuredAsAWhole() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                let options = ["--redis", first.url, "--redis", second.url]
                let reshard = await
                    (try ProgramUnderTest.megaton(["queue", "reshard", "4", "--queue", "bench"] + options))
                    .ending()
                #expect(reshard.code == 0, "\(reshard.errors)")
                let (queue, _) = try await bench(
                    ["queue", "--jobs", "2000", "--workers", "1", "--rate", "50", "--seconds", "1"] + options
                )
                #expect(queue["shards"] as? Int == 4)
                let (cluster, _) = try await bench(
                    [
                        "cluster", "--simulated-workers", "5", "--jobs", "400", "--render-ms", "1", "--seconds", "1",
                        "--rate", "100", "--hosts", "3",
                    ] + options
                )
                for (report, parts) in [(queue, ["backlog", "steady"]), (cluster, ["idle", "backlog", "steady"])] {
                    for part in parts {
                        let load = try servers(report[part], "load")
                        #expect(load.names == [first.url, second.url].sorted(), "\(part)")
                        let usage = try #require(report[part] as? [String: Any])
                        let whole = try #require(usage["redis_load"] as? Double)
                        #expect(abs(load.sum - whole) < 0.001)
                        let (_, commands) = try servers(report[part], "commands_per_second")
                        #expect(abs(commands - (try #require(usage["commands_per_second"] as? Double))) < 1)
                    }
                }
                let steady = try #require(cluster["steady"] as? [String: Any])
                #expect(steady["jobs"] as? Int == 100)
                // Every shard has had jobs, and none is left.
                for (shard, server) in [first, second, first, second].enumerated() {
                    let client = server.client()
                    defer { client.close() }
                    let tag = shard == 0 ? "{bench}" : "{bench:\(shard)}"
                    let done = try await client.send(["HGET", .string("megaton:\(tag):2:stat"), "done"]).int ?? 0
                    #expect(done > 100, "shard \(shard)")
                    #expect(try await client.send(["EXISTS", .string("megaton:\(tag):2:body")]).int == 0)
                }
            }
        }
    }

    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it"))
    func theMastersOfARedisClusterAreMeasured() async throws {
        try await RedisClusterProcesses.run { (cluster) async throws in
            let options = ["--queue", "measured", "--redis", cluster.url]
            let reshard = await (try ProgramUnderTest.megaton(["queue", "reshard", "3"] + options)).ending()
            #expect(reshard.code == 0, "\(reshard.errors)")
            let (report, _) = try await bench(
                [
                    "cluster", "--simulated-workers", "4", "--jobs", "2000", "--render-ms", "0.001", "--seconds", "1",
                    "--rate", "500", "--pack", "64",
                ] + options
            )
            #expect(report["shards"] as? Int == 3)
            #expect(try servers(report["backlog"], "load").names.count == 3)
            let steady = try #require(report["steady"] as? [String: Any])
            #expect(steady["jobs"] as? Int == 500)
        }
    }

    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it"))
    func anIdleFleetConsistsOfRealWorkers() async throws {
        let (report, _) = try await bench(["cluster", "--simulated-workers", "6", "--idle", "6"])
        #expect(report["workers"] as? Int == 6 && report["processes"] as? Int == 1)
        #expect(try #require(report["threads"] as? Int) > 6)
        // Each has one for commands, one for leases, one for wake tokens and one for the fallback coordinator.
        #expect(try #require(report["connections"] as? Int) >= 24)
        let idle = try #require(report["idle"] as? [String: Any])
        let rate = try #require(idle["commands_per_second"] as? Double)
        #expect(rate > 1 && rate < 600, "\(rate)")
        let commands = try #require(report["commands"] as? [String: Any])
        // Heartbeats are scripts.
        #expect(commands["evalsha"] != nil, "\(commands)")
    }

    @Test func aQueueInUseIsLeftAlone() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.send(["LPUSH", "megaton:{default}:jobs", "{}"])
            let options = ["--queue", "default", "--redis", server.url]
            for command in [["queue"], ["cluster", "--simulated-workers", "1"], ["cluster", "--idle", "1"]] {
                let ending = await (try ProgramUnderTest.benchmarks(command + options)).ending()
                #expect(ending.code == 64 && ending.errors.contains("1 job and 0 workers"), "\(ending.errors)")
            }
            #expect(try await client.send(["LLEN", "megaton:{default}:jobs"]).int == 1)
        }
    }

    @Test func aRedisThatAcceptsTooFewConnectionsIsRefused() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.send(["CONFIG", "SET", "maxclients", "100"])
            let ending = await
                (try ProgramUnderTest.benchmarks([
                    "cluster", "--simulated-workers", "50", "--idle", "1", "--redis", server.url,
                ])).ending()
            #expect(ending.code == 64 && ending.errors.contains("maxclients"), "\(ending.errors)")
        }
    }

    @Test func impossibleMeasurementsAreWrongUsage() async throws {
        let empty = try TestDirectory()
        for arguments in [
            ["pipeline"], ["pipeline", empty.path], ["pipeline", "/nowhere"],
            ["pipeline", "https://example.org/a.jpg"],
            ["pipeline", empty.path, "--format", "bmp"], ["pipeline", empty.path, "--size", "0"],
            ["lock", "--waiters", "0"], ["lock", "--waiters", "2", "--processes", "3"], ["lock", "--redis", "nowhere"],
            ["cache", "--sizes", "33m"], ["cache", "--sizes", ""], ["cache", "--seconds", "0"],
            ["cluster", "--simulated-workers", "0"], ["cluster", "--render-ms", "0"], ["cluster", "--pack", "257"],
            ["queue", "--jobs", "1"], ["queue", "--queue", "a"], ["queue", "--redis", "nowhere"],
            ["queue", "--redis", "redis://a", "--redis", "redis://a"],
            ["queue", "--redis", "redis://a", "--queue", "a b"], ["cluster", "--queue", "a"],
            ["cluster", "--idle", "0"], ["cluster", "--idle", "5", "--jobs", "10"],
            ["cluster", "--idle", "5", "--render-ms", "100"],
        ] {
            let ending = await (try ProgramUnderTest.benchmarks(arguments)).ending()
            #expect(ending.code == 64, "\(arguments): \(ending.errors)")
        }
    }
}
