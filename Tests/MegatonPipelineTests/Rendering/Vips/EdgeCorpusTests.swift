import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// All odd files of the enabled formats, compared with the output of libvips' own thumbnailer: size, orientation,
/// colors.
@Suite(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"), .timeLimit(.minutes(5)))
struct EdgeCorpusTests {
    /// Root mean square of the differences (0 to 1) that two resamplers of the same pixels may have.
    private static let tolerance = 0.012

    /// Files that are refused, and the error.
    private static let refused: [String: ImagePipeline.Error.Code] = [
        // Image sequences: no libheif that libvips 8.14 is built with reads them.
        "lilliput/colors-animated-8bpc-alpha-exif-xmp.avif": .unsupportedFormat,
        "lilliput/rotation-animated-irot90.avif": .unsupportedFormat,
        // Lossless JPEG (SOF3), which libjpeg-turbo 2 does not read.
        "sharp/testimgl.jpg": .unsupportedFormat,
        // 20000x14000 and 65536x65536.
        "sharp/giant-image.jpg": .sideTooLong, "sharp/65536-uint32-limit.png": .sideTooLong,
    ]

    /// Files that look different, the largest difference allowed, and the reason.
    private static let different: [String: Double] = [
        // The thumbnailer lets libwebp do nearly all of the scaling; here a factor of two is left to the resampler.
        "lilliput/tears_of_steel_icc.webp": 0.016, "lilliput/tears_of_steel_no_icc.webp": 0.016, "sharp/4.webp": 0.017,
        "sharp/5_webp_a.webp": 0.017,
    ]

    private static var names: [String] {
        let all = FileManager.default.enumerator(atPath: Corpus.path("edge"))?.compactMap { $0 as? String } ?? []
        return all.sorted().filter { name in
            guard let data = try? Corpus.data("edge/\(name)"), let type = AssetType(data) else { return false }
            return AssetType.supported.contains(type)
        }
    }

    @Test func looksAsItShould() async throws {
        #expect(Self.names.count > 150)
        let names = LongTests.sample(Self.names, every: 3)
        let directory = try TestDirectory()
        // Two at a time, for machines with two cores.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<2 {
                group.addTask {
                    for name in stride(from: lane, to: names.count, by: 2).map({ names[$0] }) {
                        try await compare(name, "\(directory.path)/\(lane).png")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func compare(_ name: String, _ file: String) async throws {
        let data = try Corpus.data("edge/\(name)")
        let ours: PlatformImage
        do {
            ours = try picture(data)
        } catch {
            #expect((error as? ImagePipeline.Error)?.code == Self.refused[name], "\(name): \(error)")
            return
        }
        #expect(Self.refused[name] == nil, "\(name) is decoded: it is no exception any more")
        let hasProfile = try TestPicture.fields(of: data).contains("icc-profile-data")
        // Without a profile the values are sRGB: if asked for an export profile, libvips would change the colors.
        let colors = hasProfile ? ["--eprofile", "srgb"] : []
        func theirs(_ size: String) async throws -> PlatformImage {
            let arguments = [Corpus.path("edge/\(name)"), "-s", size, "-o", "\(file)[strip]"] + colors
            let status = try await InstalledTool("vipsthumbnail").run(arguments)
            #expect(status == 0, "vipsthumbnail \(name)")
            return try ImageDecoders.Default().decode(Data(contentsOf: URL(fileURLWithPath: file))).image
        }
        var other = try await theirs("64x64>")
        // The thumbnailer rounds the size after shrink-on-load as well, so it may differ by a pixel.
        #expect(abs(ours.size.width - other.size.width) <= 1, "\(name)")
        #expect(abs(ours.size.height - other.size.height) <= 1, "\(name)")
        if Self.distance(ours, other) > Self.tolerance {
            // The thumbnailer uses one factor for both sides, and so cuts off up to half a pixel, unless given the
            // exact size.
            other = try await theirs("\(ours.size)!")
        }
        let distance = Self.distance(ours, other)
        #expect(distance <= Self.different[name] ?? Self.tolerance, "\(name): \(distance)")
    }

    /// The image as a user gets it: through a rendition and its bytes.
    private func picture(_ data: Data) throws -> PlatformImage {
        let engine = VipsEngine()
        let type = try AssetType.supported.sniff(data)
        let plan = try RenderPlan(
            probing: data,
            type,
            [Rendition(width: 64, height: 64, format: .png)],
            engine,
            RenderLimits()
        )
        let image = try engine.execute(plan, data, deadline: RenderDeadline(.now + .seconds(60)))[0]
        return try ImageDecoders.Default().decode(image.data).image
    }

    /// The distance between the colors as they look on white.
    private static func distance(_ one: PlatformImage, _ other: PlatformImage) -> Double {
        guard one.size == other.size else { return .infinity }
        let (first, second) = (shown(one), shown(other))
        let sum = zip(first, second).reduce(0.0) { $0 + ($1.0 - $1.1) * ($1.0 - $1.1) }
        return (sum / Double(first.count)).squareRoot()
    }

    /// Red, green and blue of each pixel, 0 to 1.
    private static func shown(_ image: PlatformImage) -> [Double] {
        let pixels = [UInt8](image.pixels())
        return stride(from: 0, to: pixels.count, by: image.bands).flatMap { start in
            let color = image.bands < 3 ? [0, 0, 0] : [0, 1, 2]
            let alpha = image.hasAlpha ? Double(pixels[start + image.bands - 1]) / 255 : 1
            return color.map { Double(pixels[start + $0]) / 255 * alpha + 1 - alpha }
        }
    }
}
