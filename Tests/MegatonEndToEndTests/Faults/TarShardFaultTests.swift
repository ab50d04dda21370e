import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// Shards stay whole and exact while workers, and the client that writes the shards, are killed.
@Suite(.serialized, .timeLimit(.minutes(20))) struct TarShardFaultTests {
    private static let count = LongTests.areOn ? 20_000 : 360
    /// In the long test about one in five seconds.
    private static let deaths = LongTests.areOn ? 60 : 12
    private static let images = (0..<250).map { TestImage.quarters(width: 60, height: 40, seed: UInt8($0)) }

    /// Reads all shards of a directory with the package `webdataset`, and prints the key and the SHA-256 of each image.
    private static let reader = """
        import glob, hashlib, json, sys, webdataset
        for sample in webdataset.WebDataset(sorted(glob.glob(sys.argv[1] + "/*.tar")), shardshuffle=False):
            digest = hashlib.sha256(sample["jpg"]).hexdigest()
            line = json.loads(sample["json"])
            assert digest == line["outputs"][0]["sha256"], sample["__key__"]
            print(line["id"], digest)
        """

    @Test func noDeathTearsRepeatsOrLosesASample() async throws {
        let count = Self.count
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            .image(Self.images[(Int(path.dropFirst().prefix { $0.isNumber }) ?? 0) % Self.images.count])
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                let shards = try TestDirectory()
                let ledger = shards.path + "/ledger.jsonl"
                let urls = (0..<count).map { origin.url("/\($0).png").absoluteString }
                let list = try cluster.directory.write(Data(urls.joined(separator: "\n").utf8), to: "urls.txt")
                let options = [
                    "--output", "tar:\(shards.path)", "--size", "16x16", "--shard-count", "\(count / 7)",
                    "--ledger", ledger,
                ]
                var workers = try await cluster.start(workers: [FaultCluster.hasty, FaultCluster.hasty])
                var client = try cluster.submit(list: list, options)
                for death in 1..<Self.deaths {
                    try await cluster.wait(untilDone: count * death / Self.deaths)
                    let worker = workers.removeFirst()
                    worker.send(SIGKILL)
                    _ = await worker.ending()
                    workers.append(try cluster.worker(FaultCluster.hasty))
                    if death == Self.deaths / 2 {
                        client.send(SIGKILL)
                        #expect(await client.ending().code == 128 + SIGKILL)
                        client = try cluster.submit(list: list, options)
                    }
                }
                _ = try await cluster.summary(of: client)

                let lines = try String(contentsOfFile: ledger, encoding: .utf8).split(separator: "\n").map {
                    try JSONDecoder().decode(JobOutcome.self, from: Data($0.utf8))
                }
                let done = lines.filter { $0.status == .done }.compactMap(\.id)
                #expect(done.count == count && Set(done).count == count, "one line for each job: \(done.count)")
                #expect(!shards.files.contains { $0.hasSuffix(".partial") })

                let archives = shards.files.filter { $0.hasSuffix(".tar") }.sorted()
                #expect(archives.count >= 7)
                var members: [Substring] = []
                for archive in archives {
                    let tar = try ProgramUnderTest(
                        program: "/usr/bin/env",
                        arguments: ["tar", "-tf", "\(shards.path)/\(archive)"]
                    )
                    let listing = await tar.ending()
                    #expect(listing.code == 0 && listing.errors.isEmpty, "\(archive): \(listing.errors)")
                    members += listing.output.split(separator: "\n")
                }
                #expect(members.count == 2 * count && Set(members).count == members.count, "\(members.count)")

                let python = try ProgramUnderTest(
                    program: Repository.root + "/.build/venv/bin/python",
                    arguments: ["-c", Self.reader, shards.path]
                )
                let read = await python.ending()
                #expect(read.code == 0, "\(read.errors)")
                let samples = read.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
                #expect(samples.count == count && Set(samples.map { $0[0] }) == Set(done))
                #expect(Set(samples.map { $0[1] }).count == min(count, Self.images.count), "images are not mixed up")
            }
        }
    }
}
