import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// The pixels that effects change, by options, by jobs of a list and by pushed jobs.
@Suite(.timeLimit(.minutes(3))) struct EffectPixelTests {
    /// A pixel of an output, and the values that its channels may have.
    struct Place: Sendable {
        let x: Int
        let y: Int
        let channels: [ClosedRange<Int>]

        /// - Parameter tolerance: the largest difference of a channel.
        init(_ x: Int, _ y: Int, _ color: [Int], by tolerance: Int = 6) {
            (self.x, self.y) = (x, y)
            channels = color.map { $0 - tolerance...$0 + tolerance }
        }

        /// A gray pixel.
        init(_ x: Int, _ y: Int, gray: ClosedRange<Int>) {
            (self.x, self.y) = (x, y)
            channels = [gray, gray, gray]
        }

        func accepts(_ color: [Int]) -> Bool { zip(channels, color).allSatisfy { $0.contains($1) } }
    }

    /// One rendition, as options and as the JSON of a job, and the pixels that it must have.
    struct Effect: Sendable, CustomTestStringConvertible {
        /// Also the name of the rendition in JSON.
        let name: String
        let source: String
        let flags: [String]
        /// Fields beside the name.
        let json: String
        let size: [Int]
        let places: [Place]

        var testDescription: String { name }
    }

    // MARK: - Sources

    private static let red = [255, 0, 0]
    private static let green = [0, 255, 0]
    private static let blue = [0, 0, 255]
    private static let white = [255, 255, 255]
    /// The color of `plain.png`.
    private static let navy = [0, 0, 200]

    private static let sources: [String: Data] = [
        "quarters.png": TestImage.quarters(width: 40, height: 20),
        // The same quarters from 20, 20 to 60, 40 within a dark border.
        "framed.png": TestImage.png(width: 80, height: 60) { x, y in
            guard (20..<60).contains(x), (20..<40).contains(y) else { return (40, 40, 40, 255) }
            return switch (x < 40, y < 30) {
            case (true, true): (255, 0, 0, 255)
            case (false, true): (0, 255, 0, 255)
            case (true, false): (0, 0, 255, 255)
            case (false, false): (255, 255, 255, 255)
            }
        },
        "edge.png": TestImage.png(width: 40, height: 20) { x, _ in x < 20 ? (90, 90, 90, 255) : (160, 160, 160, 255) },
        "stripes.png": TestImage.png(width: 128, height: 96) { x, _ in
            x / 2 % 2 == 0 ? (0, 0, 0, 255) : (255, 255, 255, 255)
        },
        "plain.png": TestImage.png(width: 200, height: 100) { _, _ in (0, 0, 200, 255) },
    ]

    private static let mark = TestImage.png(width: 20, height: 10) { _, _ in (255, 0, 0, 255) }

    /// Writes the sources to `in`, and the watermark to `marks`.
    private func writeImages(to directory: TestDirectory) throws {
        for (name, data) in Self.sources { try directory.write(data, to: "in/\(name)") }
        try directory.write(Self.mark, to: "marks/red.png")
    }

    // MARK: - Effects

    private static let half = #"{"image":"red.png","position":"northwest","opacity":0.5,"margin":5}"#
    private static let whole = #"{"image":"red.png","position":"south","scale":0.5}"#

    private static let trimmed = Effect(
        name: "trimmed",
        source: "framed.png",
        flags: ["--size", "80", "--trim", "true", "--flip", "horizontal"],
        json: #""width":80,"height":80,"trim":true,"flip":"horizontal""#,
        size: [40, 20],
        places: [Place(0, 0, green), Place(39, 0, red), Place(0, 19, white), Place(39, 19, blue)]
    )

    private static let gray = Effect(
        name: "gray",
        source: "quarters.png",
        flags: ["--size", "40", "--grayscale", "--flip", "vertical"],
        json: #""width":40,"height":40,"grayscale":true,"flip":"vertical""#,
        size: [40, 20],
        // Blue is darker than red, and red than green.
        places: [
            Place(5, 4, gray: 10...90), Place(35, 4, white), Place(5, 15, gray: 45...140),
            Place(35, 15, gray: 170...235),
        ]
    )

    private static let blurred = Effect(
        name: "blurred",
        source: "edge.png",
        flags: ["--size", "40", "--blur", "3"],
        json: #""width":40,"height":40,"blur":3"#,
        size: [40, 20],
        places: [
            Place(0, 10, gray: 88...94), Place(18, 10, gray: 100...124), Place(21, 10, gray: 126...150),
            Place(39, 10, gray: 156...162),
        ]
    )

    private static let sharpened = Effect(
        name: "sharpened",
        source: "edge.png",
        flags: ["--size", "40", "--sharpen", "2"],
        json: #""width":40,"height":40,"sharpen":2"#,
        size: [40, 20],
        places: [
            Place(2, 10, gray: 86...94), Place(19, 10, gray: 0...87), Place(20, 10, gray: 163...255),
            Place(37, 10, gray: 156...164),
        ]
    )

    private static let marked = Effect(
        name: "marked",
        source: "plain.png",
        flags: ["--size", "200", "--watermark", half],
        json: #""width":200,"height":200,"watermark":\#(half)"#,
        size: [200, 100],
        // The mark is 20x10 at 5, 5, and lets half of the blue through.
        places: [
            Place(15, 10, [128, 0, 100]), Place(6, 6, [128, 0, 100]), Place(2, 2, navy),
            Place(28, 10, navy), Place(190, 95, navy),
        ]
    )

    private static let labeled = Effect(
        name: "labeled",
        source: "plain.png",
        flags: ["--size", "200", "--watermark", whole],
        json: #""width":200,"height":200,"watermark":\#(whole)"#,
        size: [200, 100],
        // The mark is 100x50 in the middle of the lower edge.
        places: [
            Place(100, 75, red), Place(55, 95, red), Place(100, 45, navy), Place(45, 95, navy),
            Place(155, 95, navy),
        ]
    )

    private static let framed = Effect(
        name: "framed",
        source: "quarters.png",
        flags: [
            "--size", "30x30", "--fit", "contain", "--background", "204060", "--padding", "4", "--format", "jpeg",
            "--quality", "95",
        ],
        json:
            ##""width":30,"height":30,"fit":"contain","background":"#204060","padding":4,"##
            + #""format":"jpeg","quality":95"#,
        size: [38, 38],
        // The image has 30x15 pixels in the middle; padding and bars have one color.
        places: [
            Place(0, 0, [32, 64, 96]), Place(19, 5, [32, 64, 96]), Place(1, 19, [32, 64, 96], by: 20),
            Place(37, 37, [32, 64, 96]), Place(11, 15, red, by: 24), Place(27, 23, white, by: 24),
        ]
    )

    private static let linear = Effect(
        name: "linear",
        source: "stripes.png",
        flags: ["--size", "16x", "--linear"],
        json: #""width":16,"linear":true"#,
        size: [16, 12],
        // Half of the intensity of white; the mean of the samples would be 128.
        places: [Place(8, 6, gray: 184...192)]
    )

    static let effects = [trimmed, gray, blurred, sharpened, marked, labeled, framed, linear]

    /// The jobs of all effects, one for each.
    ///
    /// - Parameter fields: further fields of a job, with a comma at their end.
    private func jobs(_ directory: TestDirectory, _ fields: String = "") -> [String] {
        Self.effects.map { effect in
            let format = effect.json.contains("format") ? "" : #","format":"png""#
            let rendition = #"{"name":"\#(effect.name)",\#(effect.json)\#(format)}"#
            let source = "file://\(directory.path)/in/\(effect.source)"
            return #"{"id":"\#(effect.name)",\#(fields)"source":"\#(source)","renditions":[\#(rendition)]}"#
        }
    }

    /// Compares the output of a job with the effect.
    private func check(_ effect: Effect, _ outcome: JobOutcome?) throws {
        let outcome = try #require(outcome, "\(effect.name)")
        #expect(outcome.outputs.count == 1, "\(effect.name): \(outcome)")
        let output = try #require(outcome.outputs.first)
        #expect([output.width, output.height] == effect.size, "\(effect.name)")
        let pixels = try OutputPixels(contentsOf: try #require(output.path))
        try #require([pixels.width, pixels.height] == effect.size, "\(effect.name)")
        for place in effect.places {
            let color = pixels.color(place.x, place.y)
            #expect(place.accepts(color), "\(effect.name) at \(place.x), \(place.y): \(color)")
        }
    }

    // MARK: - Tests

    @Test(arguments: effects) func optionsChangePixels(_ effect: Effect) async throws {
        let home = try RunTests.Home()
        try writeImages(to: home.directory)
        let format = effect.flags.contains("--format") ? [] : ["--format", "png"]
        let options = ["in/\(effect.source)", "--workers", "1", "--watermarks", "marks"] + format + effect.flags
        let ending = try await home.run(options)
        #expect(ending.code == 0, "\(ending.errors)")
        try check(effect, try home.ledger().first)
    }

    @Test func jobsOfAListChangePixels() async throws {
        let home = try RunTests.Home()
        try writeImages(to: home.directory)
        try home.directory.write(Data(jobs(home.directory).joined(separator: "\n").utf8), to: "jobs.jsonl")
        let ending = try await home.run(["jobs.jsonl", "--workers", "1", "--watermarks", "marks"])
        #expect(ending.code == 0, "\(ending.errors)")
        let ledger = try home.ledger()
        for effect in Self.effects {
            try check(effect, ledger.first { $0.outputs.first?.name == effect.name })
        }
    }

    @Test func pushedJobsChangePixels() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let directory = cluster.directory
            try writeImages(to: directory)
            try await cluster.start(workers: [FaultCluster.hasty + ["--watermarks", "\(directory.path)/marks"]])
            let output = "file://\(directory.path)/out/{id}.{ext}"
            for job in jobs(directory, #""output":"\#(output)","reply":{"list":"client:effects"},"#) {
                try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
            }
            let lines = try await cluster.client.outcomes(Self.effects.count, of: "client:effects")
            let outcomes = try lines.map { try JSONDecoder().decode(JobOutcome.self, from: $0) }
            for effect in Self.effects { try check(effect, outcomes.first { $0.id == effect.name }) }
        }
    }
}
