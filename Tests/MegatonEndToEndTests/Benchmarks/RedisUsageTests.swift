import MegatonCommandLine
import Testing

@testable import MegatonBenchmarks

/// The load on Redis that benchmarks report.
@Suite struct RedisUsageTests {
    private func info(cpu: Double, commands: Int, scripts: Int = 0, clients: Int = 1, maximum: Int = 100) -> RedisInfo {
        RedisInfo(
            """
            # CPU\r
            used_cpu_sys:\(cpu / 4)\r
            used_cpu_user:\(cpu * 3 / 4)\r
            # Stats\r
            total_commands_processed:\(commands)\r
            # Commandstats\r
            cmdstat_evalsha:calls=\(scripts),usec=10,usec_per_call=1.00\r
            cmdstat_client|setname:calls=3,usec=1\r
            # Clients\r
            connected_clients:\(clients)\r
            maxclients:\(maximum)\r
            """
        )
    }

    @Test func figuresAreSumsOfServers() {
        let before = ServerInfos(servers: ["a": info(cpu: 1, commands: 100), "b": info(cpu: 5, commands: 1000)])
        let after = ServerInfos(servers: [
            "a": info(cpu: 2, commands: 1100, scripts: 40), "b": info(cpu: 5.5, commands: 1200, scripts: 10),
            // A replica that was promoted meanwhile.
            "c": info(cpu: 70, commands: 70_000),
        ])
        let usage = RedisUsage(from: before, to: after, jobs: 100, in: .seconds(2), machineLoad: nil)
        #expect(usage.servers.map(\.name) == ["a", "b"])
        #expect(usage.servers.map(\.load) == [0.5, 0.25])
        #expect(usage.servers.map(\.commandsPerSecond) == [500, 100])
        #expect(usage.redisLoad == 0.75 && usage.highestLoad == 0.5)
        #expect(usage.commandsPerSecond == 600 && usage.scriptsPerSecond == 25)
        #expect(usage.jobsPerSecond == 50 && usage.commandsPerJob == 12 && usage.scriptsPerJob == 0.5)
        #expect(usage.cpuMicrosecondsPerJob == 15_000)
        let lines = RedisUsage.lines([("idle", usage), ("backlog", usage)])
        #expect(
            lines == [
                "server      a: idle 1.00 s of CPU (50 %), 500 commands a second; "
                    + "backlog 1.00 s of CPU (50 %), 500 commands a second",
                "server      b: idle 0.50 s of CPU (25 %), 100 commands a second; "
                    + "backlog 0.50 s of CPU (25 %), 100 commands a second",
            ]
        )
        #expect(ServerInfos.rates(from: before, to: after, in: 2)["evalsha"] == 25)
    }

    @Test func workersAreDividedOverProcesses() throws {
        let fleet = BenchmarkFleet(workers: 1001, concurrency: 2)
        #expect(fleet.processes == 5)
        let processes = fleet.arguments(["idle-workers", "--x", "1"], filesPerWorker: 10)
        #expect(processes.count == 5 && processes.allSatisfy { $0.prefix(3) == ["idle-workers", "--x", "1"] })
        let counts = processes.compactMap { Int($0[4]) }
        #expect(counts.reduce(0, +) == 1001 && counts.max() == 201 && counts.min() == 200)
        #expect(processes[0].suffix(4) == ["--concurrency", "2", "--open-files", "2200"])
    }

    @Test func aServerMustAcceptTheConnections() throws {
        let fleet = BenchmarkFleet(workers: 10, concurrency: 1)
        let infos = ServerInfos(servers: [
            "a": info(cpu: 0, commands: 0, clients: 20), "b": info(cpu: 0, commands: 0, clients: 20),
        ])
        try fleet.requireConnections(160, to: infos)
        #expect(throws: CLIError.self) { try fleet.requireConnections(170, to: infos) }
        // An old version does not say how many it accepts.
        try fleet.requireConnections(10_000, to: ServerInfos(servers: ["a": RedisInfo("connected_clients:1")]))
    }

    @Test func thisProcessHasThreads() throws {
        let count = try #require(ProcessThreads.count())
        #expect(count >= 1)
    }
}
