import Foundation
import MegatonTestSupport
import Testing

/// Separate processes, in which libvips is not started before the first image: the planar engine works without it, and
/// code that needs it later starts it.
@Suite(.timeLimit(.minutes(3))) struct EngineTests {
    private let directory: TestDirectory

    init() throws {
        directory = try TestDirectory()
        try directory.write(try TestImage.jpeg(width: 90, height: 60), to: "in/a.jpg")
        try directory.write(TestImage.quarters(width: 80, height: 60), to: "png/b.png")
    }

    private func bench(_ arguments: [String]) async throws -> Int? {
        let all = ["pipeline"] + arguments + ["--size", "32", "--seconds", "1", "--threads", "1", "--json"]
        let ending = await (try ProgramUnderTest.benchmarks(all, directory: directory.path)).ending()
        #expect(ending.code == 0, "\(arguments): \(ending.errors)")
        let report = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
        return report?["images"] as? Int
    }

    /// Its threads end without libvips, too.
    @Test func planesDoWithoutLibvips() async throws {
        #expect(try await bench(["in", "--engine", "planes", "--format", "jpeg,webp"]) == 1)
    }

    /// The header was read without libvips, which then renders the image.
    @Test(arguments: ["png", "avif,gif"]) func libvipsStartsBehindAHeader(_ format: String) async throws {
        #expect(try await bench(["in", "--engine", "auto", "--format", format]) == 1)
    }

    @Test func libvipsStartsBehindPlanes() async throws {
        #expect(try await bench(["in", "png", "--engine", "auto", "--format", "jpeg"]) == 2)
    }

    /// A JPEG for the planar engine beside a PNG, and JPEGs whose renditions the planar engine does not support.
    @Test(arguments: [(["in", "png"], 2), (["in", "--fit", "contain"], 1), (["in", "--format", "png"], 1)])
    func aWorkerStartsLibvipsWhenItIsNeeded(_ arguments: [String], _ count: Int) async throws {
        let run = try ProgramUnderTest.megaton(
            ["run"] + arguments + ["--output", "out", "--size", "32x32", "--workers", "1", "--json"],
            environment: ["XDG_CACHE_HOME": directory.path + "/cache"],
            directory: directory.path
        )
        let ending = await run.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let summary = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
        #expect(summary?["done"] as? Int == count && summary?["renders"] as? Int == count, "\(ending.output)")
    }
}
