import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Broken and hostile files among good images: the good ones are not affected. Skipped if the corpus is missing.
@Suite(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"), .timeLimit(.minutes(3)))
struct BadCorpusTests {
    /// Error codes that a file itself can cause.
    private static let codes: Set = [
        "empty", "unsupported_format", "corrupt_image", "image_too_large", "side_too_long", "too_many_bands",
        "too_many_frames", "too_large", "too_costly", "output_too_large", "render_timed_out", "render_failed",
    ]

    /// Seconds that a render may take by a worker's default.
    private static let timeLimit = RenderLimits().time.inSeconds
    /// Memory limit of each worker in kB.
    private static let memory = 500 * 1024

    private static func badFiles() -> [URL] {
        let root = Corpus.path("bad")
        let names = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        return names.sorted().map { URL(fileURLWithPath: "\(root)/\($0)") }.filter { url in
            var isDirectory: ObjCBool = false
            return FileManager.default.fileExists(atPath: url.path, isDirectory: &isDirectory) && !isDirectory.boolValue
        }
    }

    /// Typical uploads: photographs of the corpus, up to 16 megapixels, and 2000 pixels wide in formats without
    /// shrink-on-load. Each source has its own name, and so its own rendition.
    private static func writeGoodFiles(_ count: Int, into directory: TestDirectory) async throws -> [URL] {
        let photos = try FileManager.default.contentsOfDirectory(atPath: Corpus.path("photos")).sorted()
        var files = try photos.map { name in
            try directory.write(Corpus.data("photos/\(name)"), to: "photos/\(name)")
        }
        let pipeline = ImagePipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        let formats: [Rendition.Format] = [.png, .webp, .jpeg]
        let wanted = formats.map { Rendition(name: "wide", width: 2000, height: 1500, fit: .fill, format: $0) }
        for file in files.prefix(4) {
            let source = ImageRequest(url: URL(fileURLWithPath: file))
            for made in try await pipeline.renditions(wanted, for: source) {
                let name = "photos/\(files.count).\(made.rendition.format.fileExtension)"
                files.append(try directory.write(made.data, to: name))
            }
        }
        try #require(files.count >= 20)
        try FileManager.default.createDirectory(atPath: directory.path + "/good", withIntermediateDirectories: true)
        return try (0..<count).map { index in
            let file = files[index % files.count]
            let path = "\(directory.path)/good/\(index).\((file as NSString).pathExtension)"
            try FileManager.default.linkItem(atPath: file, toPath: path)
            return URL(fileURLWithPath: path)
        }
    }

    /// Merges the lists in order, the shorter one spread over the longer one.
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

    /// Peak memory of a process so far, in kB (proc(5), VmHWM).
    private static func peakMemory(of process: ProgramUnderTest) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.pid)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
        return try #require(line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) })
    }

    @Test func badFilesDoNotAffectGoodOnes() async throws {
        let bad = Self.badFiles()
        try #require(bad.count > 30, "the corpus is a bad one")
        try await FaultCluster.run { (cluster) async throws in
            let good = try await Self.writeGoodFiles(LongTests.areOn ? 200 : 60, into: cluster.directory)
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
            // From claim to end, and so more than the render alone, to which the limit applies.
            #expect(all.allSatisfy { 0 < $0.seconds && $0.seconds <= Self.timeLimit }, "\(url): \(all)")
            for outcome in all where outcome.status != .done {
                let error = try #require(outcome.error, "\(url)")
                #expect(outcome.status == .failed && Self.codes.contains(error.code), "\(url): \(error)")
                #expect(!error.message.isEmpty && outcome.attempts == 1, "\(url): \(error)")
            }
        }
        #expect(Set(outcomes.compactMap(\.worker)).count == 2, "both workers had their share")
    }
}
