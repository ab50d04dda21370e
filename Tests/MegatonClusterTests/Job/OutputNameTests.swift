import Foundation
import MegatonPipeline
import Testing

@testable import MegatonCluster

/// Names of outputs are shown as they are: no character in them changes the text direction or breaks a line of a
/// listing.
struct OutputNameTests {
    private static let hidden: [UInt32] =
        [0x061C, 0x200E, 0x200F, 0x2028, 0x2029, 0x7F, 0x80, 0x85, 0x9F, 0x0A, 0x1B] + Array(0x202A...0x202E)
        + Array(0x2066...0x2069)

    @Test(arguments: hidden) func aNameLosesWhatChangesItsLook(_ value: UInt32) throws {
        let scalar = try #require(Unicode.Scalar(value))
        #expect(OutputTemplate.plain("a\(scalar)gpj.exe") == "a_gpj.exe")
        let encoded = String(scalar).utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let template = try OutputTemplate("file:///out/{path}/{stem}-{host}.{ext}")
        let path = template.path(
            source: "https://example.org/x\(encoded)y/a\(encoded)b.jpg",
            rendition: Rendition(width: 1),
            size: PixelSize(width: 1, height: 1)
        )
        #expect(path == "/out/x_y/a_b-example.org.jpg")
    }

    /// Letters of any script, marks and joiners occur in users' file names.
    @Test(arguments: ["größe", "日本語 の写真", "صورة", "e\u{301}", "👩\u{200D}👧", "a\u{A0}b"])
    func otherNamesStay(_ name: String) {
        #expect(Array(OutputTemplate.plain(name).unicodeScalars) == Array(name.unicodeScalars))
    }
}
