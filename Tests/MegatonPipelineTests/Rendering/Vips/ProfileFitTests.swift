import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// A color profile that does not match the pixels is dropped, with a warning.
struct ProfileFitTests {
    private static func grey(_ format: Rendition.Format = .jpeg) throws -> Data {
        let image = try TestPicture.plain(80, 60, [100])
        let rendition = Rendition(format: format, quality: 90)
        return try VipsEngine().encode(image, rendition, RenderDeadline(.now + .seconds(60)))
    }

    private static func with(_ profile: [UInt8], _ jpeg: Data) -> Data {
        TestJPEG.inserting(TestJPEG.profile(Data(profile)), into: jpeg)
    }

    static func sized(_ profile: [UInt8], _ length: Int? = nil) -> [UInt8] {
        var profile = profile
        profile.replaceSubrange(0..<4, with: TestProfile.number(length ?? profile.count))
        profile.replaceSubrange(8..<12, with: [4, 0x30, 0, 0])
        profile.replaceSubrange(12..<16, with: Array("mntr".utf8))
        return profile
    }

    private static let greyCurve = sized(TestProfile.profile(space: "GRAY", extra: [("kTRC", TestProfile.srgbCurve)]))

    private static let misfits: [(name: String, isGrey: Bool, profile: [UInt8])] = [
        ("grey with P3", true, sized(TestProfile.p3)),
        ("grey with sRGB", true, sized(TestProfile.srgb)),
        ("grey with Lab", true, sized(TestProfile.profile(space: "Lab "))),
        ("RGB with grey", false, greyCurve),
        ("RGB with Lab", false, sized(TestProfile.profile(space: "Lab "))),
        ("RGB with CMYK", false, sized(TestProfile.profile(space: "CMYK"))),
        ("cut off", false, sized(TestProfile.p3, 100_000)),
        ("not a profile", false, [UInt8](repeating: 7, count: 500)),
        ("a few bytes", false, [1, 2, 3]),
        ("without a tag that is needed", false, sized(Array(TestProfile.p3.prefix(128)) + [0, 0, 0, 0])),
        ("a table of tags beyond the end", false, sized(Array(TestProfile.p3.prefix(128)) + [0, 0, 0, 90])),
    ]

    @Test(arguments: [RenderEngineChoice.auto, .vips], misfits.indices)
    func aMisfitIsLeftOut(_ engine: RenderEngineChoice, _ index: Int) throws {
        let (name, isGrey, profile) = Self.misfits[index]
        let plain = isGrey ? try Self.grey() : try TestPicture.jpeg(80, 60)
        let data = Self.with(profile, plain)
        for format in [Rendition.Format.jpeg, .png, .webp] {
            for kept in [Rendition.ColorProfile.srgb, .keep] {
                let rendition = Rendition(width: 40, format: format, profile: kept)
                let image = try DamageTests.render(data, rendition, engine)
                #expect(
                    image.notes.contains { $0.hasPrefix("the color profile does not fit") },
                    "\(name): \(image.notes)"
                )
                #expect(image.notes.contains { $0.hasSuffix(isGrey ? "gray" : "sRGB") }, "\(name): \(image.notes)")
                #expect(try VipsEngine().probe(image.data, type: AssetType(image.data) ?? .html).hasRGBProfile == false)
                let wanted = try PixelReader(DamageTests.render(plain, rendition, .vips).data)
                #expect(try PixelReader(image.data).distance(to: wanted) < 1.5, "\(name)")
            }
        }
        #expect(try ImageDecoders.Default().decode(data).image.size == PixelSize(width: 80, height: 60))
    }

    @Test(arguments: [RenderEngineChoice.auto, .vips]) func aMatchingProfileStays(_ engine: RenderEngineChoice) throws {
        let wide = Self.with(Self.sized(TestProfile.p3), try TestPicture.jpeg(80, 60))
        let image = try DamageTests.render(wide, Rendition(width: 40, profile: .keep), engine)
        #expect(try image.notes.isEmpty && VipsEngine().probe(image.data, type: .jpeg).hasRGBProfile)
        let grey = Self.with(Self.greyCurve, try Self.grey())
        #expect(try DamageTests.render(grey, Rendition(width: 40), engine).notes.isEmpty)
    }
}
