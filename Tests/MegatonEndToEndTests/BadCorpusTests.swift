import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

/// Broken and hostile files among good pictures: they cost nobody else anything. Skipped where the corpus is not there.
@Suite(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"), .timeLimit(.minutes(3)))
struct BadCorpusTests {
    /// What a file itself can be blamed for.
    private static let codes: Set = [
        "empty", "unsupported_format", "corrupt_image", "image_too_large", "side_too_long", "too_many_bands",
        "too_many_frames", "too_large", "too_costly", "output_too_large", "render_timed_out", "render_failed",
    ]

    /// Of each worker, kB.
    private static let memory = 500 * 1024

    private static func badFiles() -> [URL] {
        let root = Corpus.path("bad")
        let names = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        return names.sorted().map { URL(fileURLWithPath: "\(root)/\($0)") }.filter { url in
            var isDirectory: ObjCBool = false
            return FileManager.default.fileExists(atPath: url.path, isDirectory: &isDirectory) && !isDirectory.boolValue
        }
    }

    /// Each of another size, and so with other bytes and a rendition of its own.
    private static func writeGoodFiles(_ count: Int, into directory: TestDirectory) throws -> [URL] {
        try (0..<count).map { index in
            let image = TestImage.quarters(width: 32 + index % 20, height: 32 + index / 20, seed: UInt8(index))
            return URL(fileURLWithPath: try directory.write(image, to: "good/\(index).png"))
        }
    }

    /// Each list in its order, the shorter one spread over the longer one.
    private static func mix(_ long: [URL], _ short: [URL]) -> [URL] {
        var mixed: [URL] = []
        var rest = short[...]
        for (index, url) in long.enumerated() {
            mixed.append(url)
            let due = (index + 1) * short.count / long.count
            mixed += rest.prefix(due - (short.count - rest.count))
            rest = short[due...]
        }
        return mixed
    }

    /// The most memory that a process had so far, kB (proc(5), VmHWM).
    private static func peakMemory(of process: ProgramUnderTest) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.pid)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
        return try #require(line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) })
    }

    @Test func badFilesAmongGoodOnesHarmNobody() async throws {
        let bad = Self.badFiles()
        try #require(bad.count > 30, "the corpus is a bad one")
        try await FaultCluster.run { (cluster) async throws in
            let good = try Self.writeGoodFiles(200, into: cluster.directory)
            let roots = ["--allow-root", Corpus.path("bad")]
            let workers = try await cluster.start(workers: [roots, roots])
            let ledger = ["--ledger", cluster.directory.path + "/ledger.jsonl"]
            let summary = try await cluster.summary(of: cluster.submit(Self.mix(good, bad), ledger), code: 2)
            #expect(summary.jobs == good.count + bad.count && summary.cancelled == 0 && summary.deduplicated == 0)
            #expect(summary.done + summary.failed == summary.jobs)
            try check(cluster.lines(of: "ledger.jsonl", as: JobOutcome.self), good: good, bad: bad)
            #expect(try await cluster.statistic("stalled") == 0)
            #expect(try await cluster.leftovers() == [])
            for worker in workers {
                try #require(worker.isRunning, "\(worker.errors)")
                let peak = try Self.peakMemory(of: worker)
                #expect(peak <= Self.memory, "\(peak) kB")
                worker.send(SIGTERM)
                #expect(await worker.ending().code == 0, "\(worker.errors)")
            }
        }
    }

    private func check(_ outcomes: [JobOutcome], good: [URL], bad: [URL]) throws {
        let bySource = Dictionary(grouping: outcomes, by: \.source)
        for url in good {
            let all = bySource[url.absoluteString] ?? []
            #expect(all.count == 1 && all.allSatisfy { $0.status == .done && $0.outputs.count == 1 }, "\(url): \(all)")
        }
        for url in bad {
            let all = bySource[url.absoluteString] ?? []
            #expect(all.count == 1, "\(url): \(all)")
            for outcome in all where outcome.status != .done {
                let error = try #require(outcome.error, "\(url)")
                #expect(outcome.status == .failed && Self.codes.contains(error.code), "\(url): \(error)")
                #expect(!error.message.isEmpty && outcome.attempts == 1, "\(url): \(error)")
            }
        }
        #expect(Set(outcomes.compactMap(\.worker)).count == 2, "both workers had their share")
    }
}
