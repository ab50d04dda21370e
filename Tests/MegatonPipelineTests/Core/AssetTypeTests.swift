import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite struct AssetTypeTests {
    @Test(arguments: [
        ([0xFF, 0xD8, 0xFF, 0xE0], AssetType.jpeg), ([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], .png),
        (Array("GIF89a".utf8), .gif), (Array("RIFF\0\0\0\0WEBP".utf8), .webp), ([0x49, 0x49, 0x2A, 0], .tiff),
        (Array("BM".utf8), .bmp), ([0, 0, 1, 0], .ico), (Array("%PDF-1.7".utf8), .pdf), (Array("8BPS".utf8), .psd),
        ([0xFF, 0x0A], .jxl), (Array("<!DOCTYPE html>".utf8), .html), (Array("  <svg xmlns=".utf8), .svg),
        (Array("<?xml version=\"1.0\"?><svg>".utf8), .svg), (Array("GIF87a".utf8), .gif),
        ([0x4D, 0x4D, 0, 0x2A], .tiff), ([0, 0, 0, 0x0C, 0x4A, 0x58, 0x4C, 0x20], .jxl),
        ([0, 0, 0, 0x0C, 0x6A, 0x50], .jp2), ([0xFF, 0x4F, 0xFF, 0x51], .jp2), (Array("<html>".utf8), .html),
    ])
    func knowsMagicNumbers(_ bytes: [UInt8], _ type: AssetType) {
        #expect(AssetType(Data(bytes)) == type)
        #expect(AssetType((Data([9, 9]) + Data(bytes)).dropFirst(2)) == type, "a slice has another start index")
    }

    @Test(arguments: [
        [], [0xFF], [0xFF, 0xD8], Array("RIFF\0\0\0\0WEB".utf8), Array("text".utf8), [0, 0, 0, 8, 102, 116, 121, 112],
    ])
    func doesNotGuess(_ bytes: [UInt8]) {
        #expect(AssetType(Data(bytes)) == nil)
    }

    /// A `ftyp` box (ISO/IEC 14496-12): the major brand, followed by the compatible brands.
    private func box(_ brands: [String]) -> Data {
        Data([0, 0, 0, UInt8(8 + 4 * (brands.count + 1))]) + Data("ftyp".utf8) + Data(brands[0].utf8)
            + Data([0, 0, 0, 0]) + Data(brands.dropFirst().joined().utf8)
    }

    @Test func distinguishesAVIFFromHEICByItsBrands() {
        #expect(AssetType(box(["avif", "mif1"])) == .avif)
        #expect(AssetType(box(["mif1", "miaf", "avif"])) == .avif)
        #expect(AssetType(box(["heic", "mif1"])) == .heic)
        #expect(AssetType(box(["mif1", "heic"])) == .heic)
        #expect(AssetType(box(["isom", "mp41"])) == .mp4)
    }

    @Test(arguments: [
        (AssetType.avif, ["avif", "avis"]),
        (.heic, ["heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"]),
        (.mp4, ["isom", "iso2", "iso4", "iso5", "iso6", "mp41", "mp42", "mmp4", "avc1", "dash"]),
        (.m4v, ["M4V ", "M4VH", "M4VP"]), (.mov, ["qt  "]),
    ]) func knowsEachBrand(_ type: AssetType, _ brands: [String]) {
        for brand in brands { #expect(AssetType(box([brand])) == type, "\(brand)") }
    }
}
