import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// The versions of a cluster's processes in `megaton status` and `megaton doctor`.
@Suite(.timeLimit(.minutes(3))) struct VersionTests {
    /// The part of `megaton status --json` that has versions.
    private struct Status: Decodable {
        struct Process: Decodable {
            let name: String
            let version: String?
            let `protocol`: Int?
        }

        let workers: [Process]
        let coordinators: [Process]
    }

    private let version = "\(Megaton.version), protocol 2"

    @Test func theVersionOfEachProcessIsShown() async throws {
        try await FaultCluster.run { (cluster) async throws in
            try await cluster.start(workers: [FaultCluster.hasty, FaultCluster.hasty])
            let json = try await cluster.command(["status", "--json"])
            let status = try JSONDecoder().decode(Status.self, from: Data(json.output.utf8))
            #expect(status.workers.count == 2 && status.coordinators.count == 1, "\(json.output)")
            let processes = status.workers + status.coordinators
            #expect(processes.allSatisfy { $0.version == Megaton.version && $0.protocol == 2 }, "\(json.output)")
            let text = try await cluster.command(["status"])
            let lines = text.output.split(separator: "\n")
            for process in processes {
                let line = lines.first { $0.contains(process.name) && !$0.hasPrefix("leader") }
                #expect(line?.hasSuffix(version) == true, "\(process.name) in \(text.output)\(text.errors)")
            }
            #expect(!lines.contains { $0.hasPrefix("versions") }, "there is one version")
            let doctor = try await cluster.command(["doctor"])
            #expect(doctor.output.contains("ok       versions: \(version) (3 processes)\n"), "\(doctor.output)")
        }
    }

    @Test func aMixOfVersionsIsNamed() async throws {
        try await FaultCluster.run { (cluster) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            let info = #"{"host":"h","pid":1,"started":1,"concurrency":1,"version":"9.0.0","protocolVersion":2}"#
            // Its last heartbeat is that of a worker that lives for as long as the test does.
            let heartbeat = Int(Date().timeIntervalSince1970 * 1000) + 600_000
            try await cluster.client.send(["ZADD", "megaton:{default}:2:workers", .int(heartbeat), "other:1:a"])
            try await cluster.client.send(["HSET", "megaton:{default}:2:workerinfo", "other:1:a", .string("0 \(info)")])
            let both = "\(version) (2 processes); 9.0.0, protocol 2 (1 process)"
            let mix = "processes of different versions are running: \(both). Install one version"
            let status = try await cluster.command(["status"])
            #expect(status.output.contains("versions    \(mix)"), "\(status.output)\(status.errors)")
            #expect(status.output.contains("other:1:a  0 running, last heartbeat 0 s ago, 9.0.0, protocol 2"))
            let doctor = try await cluster.command(["doctor"])
            #expect(doctor.output.contains("warning  versions: \(mix)"), "\(doctor.output)")
        }
    }
}
