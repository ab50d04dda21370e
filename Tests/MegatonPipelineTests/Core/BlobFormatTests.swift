import Foundation
import Testing

@testable import MegatonCore

@Suite(.timeLimit(.minutes(1))) struct BlobFormatTests {
    private struct Header: Codable, Equatable {
        var text: String
    }

    @Test func aBlobIsTheMagicTheLengthTheHeaderAndTheBody() throws {
        let blob = try BlobFormat.response.encode(Header(text: "a"), Data("body".utf8))
        #expect(blob == Data("L1".utf8) + [12, 0, 0, 0] + Data(#"{"text":"a"}body"#.utf8))
        let (header, body) = try #require(BlobFormat.response.decode(Header.self, from: blob))
        #expect(header == Header(text: "a") && body == Data("body".utf8))
        let slice = (Data([9, 9]) + blob).dropFirst(2)
        #expect(BlobFormat.response.decode(Header.self, from: slice)?.body == body, "a slice has another start index")
    }

    @Test func anotherFormatOrALengthBeyondTheEndIsAMiss() throws {
        let blob = try BlobFormat.cachedData.encode(Header(text: "a"), Data())
        #expect(BlobFormat.response.decode(Header.self, from: blob) == nil)
        for end in 0..<blob.count { #expect(BlobFormat.cachedData.decode(Header.self, from: blob.prefix(end)) == nil) }
        let long = Data("M1".utf8) + [255, 255, 255, 255] + Data(#"{"text":"a"}"#.utf8)
        #expect(BlobFormat.cachedData.decode(Header.self, from: long) == nil)
        #expect(BlobFormat.cachedData.decode(Header.self, from: Data("M1\u{2}\0\0\0{]".utf8)) == nil)
    }

    @Test func noMagicBeginsWithAnother() {
        let magics = BlobFormat.allCases.map(\.rawValue)
        for magic in magics { #expect(magics.filter { $0.hasPrefix(magic) } == [magic]) }
    }

    @Test func integersAreLittleEndianAndReadFromTheStartOfASlice() {
        var data = Data([7])
        data.append(littleEndian: 0x0102_0304 as UInt32)
        data.append(littleEndian: -2 as Int64)
        #expect(Array(data.prefix(5)) == [7, 4, 3, 2, 1])
        let slice = data.dropFirst()
        #expect(slice.littleEndian(UInt32.self, at: 0) == 0x0102_0304 && slice.littleEndian(Int64.self, at: 4) == -2)
        #expect(slice.littleEndian(Int64.self, at: 5) == nil && slice.littleEndian(UInt8.self, at: -1) == nil)
    }

    @Test func hexDigitsAreLowercaseAndTwoForEachByte() {
        #expect([0, 9, 10, 0xFF, 0xA0].hexDigits == "00090affa0" && [UInt8]().hexDigits.isEmpty)
        #expect(HexDigits.percentEncoded(0x0A) == "%0A" && HexDigits.percentEncoded(0xFE) == "%FE")
    }
}
