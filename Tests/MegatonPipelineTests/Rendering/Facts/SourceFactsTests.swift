import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Facts from the bytes beside the pixels, and their forms in JSON and in caches.
@Suite struct SourceFactsTests {
    private static let jpeg = Result { try TestImage.jpeg(width: 16, height: 16) }

    private func jpeg(_ segments: Data) throws -> SourceMetadata {
        SourceMetadata(TestJPEG.inserting(segments, into: try Self.jpeg.get()), .jpeg)
    }

    // MARK: - Content Credentials

    /// A box `jumb` with a description of this type (ISO/IEC 19566-5).
    private static func manifestStore(_ type: String = "c2pa") -> Data {
        let rest: [UInt8] = [0x00, 0x11, 0x00, 0x10, 0x80, 0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71, 3]
        let description = HEIFWriter.box("jumd", Data(type.utf8) + rest + Data("c2pa\0".utf8))
        return HEIFWriter.box("jumb", description)
    }

    private static func app11(_ box: Data) -> Data {
        TestJPEG.segment(0xEB, Data("JP".utf8) + [0, 1, 0, 0, 0, 1] + box)
    }

    @Test func aJPEGHasCredentialsInSegments() throws {
        #expect(try jpeg(Self.app11(Self.manifestStore())).hasC2PA)
        #expect(try !jpeg(Self.app11(Self.manifestStore("json"))).hasC2PA, "another JUMBF box")
        #expect(try !jpeg(TestJPEG.segment(0xEB, Data("HDR_RI ver=11".utf8))).hasC2PA, "another use of the segment")
        #expect(try !jpeg(Data()).hasC2PA)
    }

    @Test func aJPEGWithACutSegmentHasNoCredentials() throws {
        let body = Self.app11(Self.manifestStore()).dropFirst(4)
        // The type of the store ends at the 28th byte.
        for length in 0..<body.count {
            let found = try jpeg(TestJPEG.segment(0xEB, Data(body.prefix(length)))).hasC2PA
            #expect(found == (length >= 28), "\(length)")
        }
        // A box with a length of 64 bits.
        let long = Data("JP".utf8) + [0, 1, 0, 0, 0, 1, 0, 0, 0, 1] + Data("jumb".utf8)
        #expect(try !jpeg(TestJPEG.segment(0xEB, long)).hasC2PA)
        #expect(try jpeg(TestJPEG.segment(0xEB, long + Data(count: 8) + Self.manifestStore().dropFirst(8))).hasC2PA)
    }

    @Test func aPNGHasCredentialsInAChunk() {
        let png = TestImage.quarters(width: 8, height: 8)
        #expect(!SourceMetadata(png, .png).hasC2PA)
        let content = Self.manifestStore()
        let chunk = HEIFWriter.big(content.count, 4) + Data("caBX".utf8) + content + HEIFWriter.big(0, 4)
        // Behind the signature and the header.
        #expect(SourceMetadata(png.prefix(33) + chunk + png.dropFirst(33), .png).hasC2PA)
    }

    @Test func aHEIFFileHasCredentialsInABox() throws {
        let file = try TestHEIF.plain(TestHEIF.Picture(16, 16)).data()
        let type: [UInt8] = [
            0xD8, 0xFE, 0xC3, 0xD6, 0x1B, 0x0E, 0x48, 0x3C, 0x92, 0x97, 0x58, 0x28, 0x87, 0x7E, 0xC4, 0x81,
        ]
        let box = HEIFWriter.box("uuid", Data(type) + Data("manifest".utf8))
        #expect(SourceMetadata(file + box, .avif).hasC2PA)
        #expect(!SourceMetadata(file + HEIFWriter.box("uuid", Data(count: 24)), .avif).hasC2PA)
        #expect(!SourceMetadata(file, .avif).hasC2PA)
    }

    // MARK: - Gain maps

    private static func xmp(_ text: String) -> Data {
        TestJPEG.segment(0xE1, Data("http://ns.adobe.com/xap/1.0/\0<x:xmpmeta \(text)/>".utf8))
    }

    private static let mpf = TestJPEG.segment(0xE2, Data("MPF\0II*\0".utf8) + Data(count: 8))

    @Test func aJPEGHasAGainMap() throws {
        #expect(try jpeg(Self.mpf + Self.xmp(#"hdrgm:Version="1.0""#)).hasGainMap)
        #expect(try jpeg(Self.xmp(#"Item:Semantic="GainMap""#) + Self.mpf).hasGainMap)
        #expect(try jpeg(TestJPEG.segment(0xE2, Data("urn:iso:std:iso:ts:21496:-1\0".utf8) + [0, 0])).hasGainMap)
        #expect(try !jpeg(Self.mpf).hasGainMap, "a second image alone is a preview")
        #expect(try !jpeg(Self.mpf + Self.xmp(#"Item:Semantic="MotionPhoto""#)).hasGainMap)
        #expect(try !jpeg(Self.xmp(#"hdrgm:Version="1.0""#)).hasGainMap, "without a second image")
    }

    @Test func aHEIFFileHasAGainMap() throws {
        let picture = try TestHEIF.Picture(16, 16)
        var file = TestHEIF.plain(picture)
        #expect(!SourceMetadata(file.data(), .avif).hasGainMap)
        file.add(2, "tmap", blob: file.add(blob: Data(count: 8)))
        #expect(SourceMetadata(file.data(), .avif).hasGainMap)
        var apple = TestHEIF.plain(picture)
        apple.add(property: HEIFWriter.auxC("urn:com:apple:photo:2020:aux:hdrgainmap"))
        #expect(SourceMetadata(apple.data(), .heic).hasGainMap)
        var alpha = TestHEIF.plain(picture)
        alpha.add(property: HEIFWriter.auxC("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"))
        #expect(!SourceMetadata(alpha.data(), .avif).hasGainMap)
    }

    // MARK: - EXIF

    /// A TIFF header, little endian: make, model, and a directory with the date and its offset.
    private static func tiff(make: String, model: String, date: String, offset: String) -> Data {
        func little(_ number: Int, _ count: Int) -> Data { Data(HEIFWriter.big(number, count).reversed()) }
        let texts = [make, model, date, offset].map { Data($0.utf8) + [0, 0, 0, 0, 0] }
        let (first, second) = (8, 8 + 2 + 3 * 12 + 4)
        var start = second + 2 + 2 * 12 + 4
        let starts = texts.map { text in
            defer { start += text.count }
            return start
        }
        func entry(_ tag: Int, _ index: Int) -> Data {
            little(tag, 2) + little(2, 2) + little(texts[index].count, 4) + little(starts[index], 4)
        }
        let parts: [Data] = [
            Data("II*\0".utf8), little(first, 4),
            little(3, 2), entry(0x010F, 0), entry(0x0110, 1),
            little(0x8769, 2), little(4, 2), little(1, 4), little(second, 4), little(0, 4),
            little(2, 2), entry(0x9003, 2), entry(0x9011, 3), little(0, 4),
        ]
        return (parts + texts).reduce(Data(), +)
    }

    private func exif(_ tiff: Data) throws -> SourceFacts.EXIF? {
        try jpeg(TestJPEG.segment(0xE1, Data("Exif\0\0".utf8) + tiff)).exif
    }

    @Test func cameraAndDateAreRead() throws {
        let tiff = Self.tiff(make: "Canon", model: " EOS R5 ", date: "2026:05:01 12:30:59", offset: "+02:00")
        let read = try #require(try exif(tiff))
        #expect((read.make, read.model) == ("Canon", "EOS R5"))
        #expect(read.date == "2026-05-01T12:30:59+02:00")
        let webp = Data("RIFF\0\0\0\0WEBPEXIF".utf8) + HEIFWriter.big(tiff.count, 4).reversed() + tiff
        #expect(SourceMetadata(webp, .webp).exif == read)
        for length in 0..<tiff.count { _ = try exif(tiff.prefix(length)) }
    }

    @Test(arguments: [
        ("    :  :     :  :  ", "", nil), ("2026:13:01 12:30:59", "", nil), ("0000:00:00 00:00:00", "", nil),
        ("2026-05-01T12:30:59", "   :  ", "2026-05-01T12:30:59"), ("2026:05:01 12:30:59", "Z", "2026-05-01T12:30:59"),
        ("2026:05:01", "+02:00", nil),
    ])
    func unusualDatesAreReadOrLeftOut(_ date: String, _ offset: String, _ expected: String?) throws {
        #expect(try exif(Self.tiff(make: "A", model: "B", date: date, offset: offset))?.date == expected)
    }

    @Test func longTextsAreCut() throws {
        let long = String(repeating: "é", count: 100)
        let read = try exif(Self.tiff(make: long, model: "a\u{1}b", date: "", offset: ""))
        #expect(read?.make?.utf8.count == SourceEXIF.longestText && read?.model == "ab")
    }

    // MARK: - Forms

    private static func facts() -> SourceFacts {
        var facts = SourceFacts(
            width: 6000,
            height: 4000,
            bytes: 12_345_678,
            format: "jpeg",
            orientation: 6,
            frames: 1,
            isAnimated: false,
            hasAlpha: false,
            hasC2PA: true,
            hasGainMap: true
        )
        facts.thumbHash = Data((0..<25).map { UInt8($0) })
        facts.dominantColor = Color(red: 1, green: 128, blue: 255)
        facts.perceptualHash = 0x0123_4567_89AB_CDEF
        return facts
    }

    @Test func thePackedFormIsSmallAndComesBack() throws {
        var facts = Self.facts()
        let packed = try #require(facts.packed)
        #expect(packed.utf8.count <= 80, "\(packed.utf8.count)")
        #expect(SourceFacts(packed: packed) == facts)
        facts.exif = SourceFacts.EXIF(date: "2026-05-01T12:30:59+02:00", make: "Canon", model: nil)
        #expect(SourceFacts(packed: try #require(facts.packed)) == facts)
        (facts.thumbHash, facts.dominantColor, facts.perceptualHash) = (nil, nil, nil)
        (facts.isAnimated, facts.frames, facts.hasAlpha, facts.format) = (true, 300, true, "gif")
        #expect(SourceFacts(packed: try #require(facts.packed)) == facts)
    }

    @Test func damagedAndOtherVersionsAreNoFacts() throws {
        let text = try #require(Self.facts().packed)
        let data = try #require(Data(base64Encoded: text))
        for length in 0..<data.count { #expect(SourceFacts(packed: data.prefix(length).base64EncodedString()) == nil) }
        #expect(SourceFacts(packed: (data + [0]).base64EncodedString()) == nil)
        #expect(SourceFacts(packed: (Data([2]) + data.dropFirst()).base64EncodedString()) == nil)
        #expect(SourceFacts(packed: "no base64") == nil)
        #expect(SourceFacts(packed: Data(repeating: 255, count: 60).base64EncodedString()) == nil)
    }

    @Test func jsonHasNamesOfTheLedger() throws {
        let facts = Self.facts()
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let json = try encoder.encode(facts)
        let expected =
            ##"{"bytes":12345678,"c2pa":true,"dominantColor":"#0180ff","format":"jpeg","gainMap":true,"##
            + #""hasAlpha":false,"height":4000,"orientation":6,"phash":"0123456789abcdef","#
            + #""thumbHash":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA==","width":6000}"#
        #expect(String(decoding: json, as: UTF8.self) == expected)
        #expect(try JSONDecoder().decode(SourceFacts.self, from: json) == facts)
    }

    @Test func factsThatWereNotAskedForAreLeftOut() {
        var facts = Self.facts()
        facts.exif = SourceFacts.EXIF(date: nil, make: "Canon", model: nil)
        let plain = facts.keeping(exif: false, perceptualHash: false)
        #expect(plain.exif == nil && plain.perceptualHash == nil && plain.thumbHash == facts.thumbHash)
        #expect(facts.keeping(exif: true, perceptualHash: true) == facts)
    }
}
