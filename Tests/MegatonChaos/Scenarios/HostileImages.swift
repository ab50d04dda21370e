import Foundation
import MegatonCluster
import MegatonTestSupport

/// HEIF and AVIF files that took gigabytes, or half a minute, in a worker that may take 512 MiB.
struct HostileImages: Scenario {
    static let name = "hostile-images"
    static let summary = "twelve bombs of HEIF, four at a time: each refused within 2 s, the worker below 1 GiB"

    /// Copies of each file in one batch: as many as the worker has threads.
    private static let copies = 4
    private static let limit: Duration = .seconds(2)
    /// In KiB, as in /proc.
    private static let memoryLimit = 1 << 20

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var options = SmallCluster.Options()
        options.workerArguments = ["--render-threads", "\(Self.copies)", "--memory", "512"]
        return try await SmallCluster.run(stage, options) { cluster, result in
            let bombs = Self.bombs
            let origin = try await OriginServer.start { path in
                let name = path.split(separator: "/").first.map(String.init) ?? ""
                return bombs[name].map { .image($0) } ?? .init(status: 404)
            }
            defer { origin.stop() }
            try await cluster.start(workers: 1, stage)
            for name in bombs.keys.sorted() {
                let list = "\(stage.directory)/\(name).txt"
                let urls = (0..<Self.copies).map { origin.url("/\(name)/\($0).avif").absoluteString }
                try JobList.write(urls, to: list)
                let start = stage.clock.now
                let submit = try cluster.fleet.launch(command: ["submit", list, "--wait", "--batch", name])
                defer { submit.send(SIGKILL) }
                let code = await Fleet.ending(of: submit, within: .seconds(60))
                let took = start.duration(to: stage.clock.now)
                let counters = try await cluster.view.batch(name)
                result.note("\(name), \(bombs[name]?.count ?? 0) bytes: \(Stage.seconds(took)) with the process")
                result.require(code == 2, "\(name): the submitter ended with \(code.map(String.init) ?? "nothing")")
                result.require(took <= Self.limit, "\(name) took \(Stage.seconds(took))")
                result.require(counters["done"] == 0, "\(counters["done"]) of \(name) are done")
            }
            let peak = Self.peak(cluster.fleet.workers[0].process.pid)
            result.note("peak of the worker: \(peak >> 10) MiB")
            result.require((1..<Self.memoryLimit).contains(peak), "the worker took \(peak >> 10) MiB")
        }
    }

    /// Peak memory of a process in KiB; 0 if it has ended.
    private static func peak(_ process: Int32) -> Int {
        let status = FileManager.default.contents(atPath: "/proc/\(process)/status") ?? Data()
        let text = String(decoding: status, as: UTF8.self)
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) } ?? 0
    }

    // MARK: - Files

    private static var bombs: [String: Data] {
        let still = { (side: Int) in TestStream.av1Sequence(side, side) + TestStream.av1Still }
        var files = [
            "ispe-av1": coded("av01", TestStream.av1C, still(16_384)),
            "ispe-av1-7000": coded("av01", TestStream.av1C, still(7000)),
            "ispe-av1-frame": coded(
                "av01",
                TestStream.av1C,
                TestStream.av1Sequence(64, 64, isReduced: false) + TestStream.av1Frame(size: (16_384, 16_384))
            ),
            "ispe-hevc": coded(
                "hvc1",
                TestStream.hvcC([TestStream.hevcParameters(16_384, 16_384)]),
                TestStream.hevc([TestStream.hevcSlice])
            ),
            "ispe-hevc-inside": coded(
                "hvc1",
                TestStream.hvcC([TestStream.hevcParameters(64, 64)]),
                TestStream.hevc([TestStream.hevcParameters(16_384, 16_384), TestStream.hevcSlice])
            ),
            "shared-metadata": shared("Exif", items: 20, extents: 32),
            "shared-images": shared("av01", items: 2000, extents: 1),
            "items": shared("av01", items: 20_000, extents: 0),
            "deflated": deflated,
        ]
        var (alpha, grid, circle) = (coded("av01", TestStream.av1C, still(64)), derived(), derived())
        let auxC = alpha.add(property: HEIFWriter.auxC("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"))
        alpha.add(2, "av01", properties: [1, 2, auxC], blob: alpha.add(blob: still(16_384)))
        alpha.references.append(.init("auxl", 2, [1]))
        grid.add(1, "grid", properties: [2], blob: grid.add(blob: HEIFWriter.grid(rows: 1, columns: 1, 64, 64)))
        grid.references.append(.init("dimg", 1, [100]))
        circle.add(1, "iden", properties: [2], blob: 0)
        circle.references.append(.init("dimg", 1, [1]))
        files["ispe-alpha"] = alpha
        files["ispe-tile"] = grid
        files["circle"] = circle
        return files.mapValues { $0.data() }
    }

    private static func coded(_ type: String, _ configuration: Data, _ bytes: Data) -> HEIFWriter {
        var file = HEIFWriter()
        file.brand = type == "av01" ? "avif" : "heic"
        let properties = [file.add(property: configuration), file.add(property: HEIFWriter.ispe(64, 64))]
        file.add(1, type, properties: properties, blob: file.add(blob: bytes))
        return file
    }

    /// A file whose item 100 is an image of 16384x16384 that declares a small size.
    private static func derived() -> HEIFWriter {
        let stream = TestStream.av1Sequence(16_384, 16_384) + TestStream.av1Still
        var file = coded("av01", TestStream.av1C, stream)
        file.items[0].id = 100
        return file
    }

    /// A file with items that share one megabyte.
    private static func shared(_ type: String, items: Int, extents: Int) -> HEIFWriter {
        var file = coded("av01", TestStream.av1C, TestStream.av1Sequence(64, 64) + TestStream.av1Still)
        let extent = HEIFWriter.Extent(blob: file.add(blob: Data(count: 1 << 20)), length: 1 << 20)
        for id in 2..<(items + 2) {
            let item = HEIFWriter.Item(id, type, properties: [1, 2], extents: Array(repeating: extent, count: extents))
            file.items.append(item)
            if type == "Exif" { file.references.append(.init("cdsc", id, [1])) }
        }
        return file
    }

    private static var deflated: HEIFWriter {
        var file = coded("av01", TestStream.av1C, TestStream.av1Sequence(64, 64) + TestStream.av1Still)
        file.add(2, "mime", blob: file.add(blob: Data(count: 1 << 20)))
        file.items[1].encoding = "deflate"
        return file
    }
}
