import Foundation
import MegatonPipeline
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// The fast reader returns the same as the decoder, or nothing.
struct PlainJSONReaderTests {
    private static let job = #"""
        {"id":"a.1","kind":"process","source":"https:\/\/example.org/größe/\"a\\b\".jpg","attempts":7,
         "renditions":[{"name":"small","width":256,"height":171,"background":"#ff0000","format":"webp"},{"width":64}],
         "output":"file:///out/{path}/{stem}-{name}.{ext}","batch":"spring","priority":"bulk","credential":"partner",
         "labels":{"order":12,"color":"red","paid":true}}
        """#

    private func decoded(_ json: String) -> Job? { try? JSONDecoder().decode(Job.self, from: Data(json.utf8)) }

    @Test func aJobIsReadAsTheDecoderReadsIt() throws {
        let short = [#" { "source" : "a" } "#, #"{"source":"a","kind":"fetch"}"#, #"{"source":"a","preset":"web"}"#]
        for json in [Self.job] + short {
            let read = try #require(Job(plainJSON: Data(json.utf8)))
            #expect(read == decoded(json))
        }
    }

    @Test(arguments: [
        #"{"source":"a\u0062"}"#, #"{"source":"a","source":"b"}"#, #"{"source":"a","attempts":2.0}"#, "[]", "", "{",
        #"{"source":"a","attempts":1e1}"#, #"{"source":"a","attempts":01}"#, #"{"source":"a","batch":null}"#,
        #"{"source":"a"}x"#, #"{"source":"a",}"#, #"{"source":"a","unknown":1}"#, #"{"source":"a","kind":"other"}"#,
        #"{"source":"a","renditions":[{"widht":3}]}"#, #"{"source":"a","renditions":[{"width":3}"#, #"{"source":7}"#,
        #"{"source":"a","attempts":9999999999999999999}"#, "{\"source\":\"a\nb\"}", #"{"kind":"process"}"#,
        // Fault: the number behind a quote was read if the text had no end.
        #"{"source":"a","id":"5}"#, "{\"id\":\"5,\n\"source\":\"a\"}", #"{"source":"a","labels":{"n":"5}}"#,
        #"{"source":"a","labels":{"n":"true}}"#, #"{"source":"a","labels":{"n":"\true}}"#, #"{"source":"a","id":"\5}"#,
        "{\"source\":\"a\",\"id\":\"\n5}",
    ])
    func theRestIsTheDecoders(_ json: String) {
        #expect(Job(plainJSON: Data(json.utf8)) == nil)
        #expect((try? Job(json: Data(json.utf8))) == decoded(json))
    }

    /// Each quote of a job removed, and each escaped.
    @Test func aTextWithoutItsQuotesIsReadAsTheDecoderReadsIt() {
        let bytes = Array(Self.job.utf8)
        for place in bytes.indices where bytes[place] == UInt8(ascii: "\"") {
            for replacement in [[], Array(#"\""#.utf8), Array(#"\\""#.utf8)] {
                let json = Data(bytes[..<place] + replacement + bytes[(place + 1)...])
                guard let read = Job(plainJSON: json), read.validationError == nil else { continue }
                #expect(read == (try? JSONDecoder().decode(Job.self, from: json)), "\(place)")
            }
        }
    }

    @Test func errorsAreThoseOfTheDecoder() {
        for (json, message) in [
            (#"{"source":"a","unknown":1}"#, "unknown field \"unknown\""),
            (#"{"source":"a","renditions":[{"widht":3}]}"#, "unknown field \"widht\""),
            (#"{"source":"a","renditions":[{"width":3},{"width":0}]}"#, "renditions[1]"),
            (#"{"source":"a","attempts":0}"#, "attempts is 0; allowed are 1 to 100"),
            (#"{"source":"a","renditions":[]}"#, "renditions is empty"),
        ] {
            let error = #expect(throws: JobError.self) { try Job(json: Data(json.utf8)) }
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        }
    }

    /// With bytes changed, removed and inserted: if the fast reader reads a job, the decoder reads the same.
    @Test func damagedJobsAreReadAsTheDecoderReadsThemOrNotAtAll() {
        let read = TextDamage.count(of: Data(Self.job.utf8)) { json in
            guard let job = Job(plainJSON: json), job.validationError == nil else { return false }
            let decoded = try? JSONDecoder().decode(Job.self, from: json)
            #expect(decoded == job, "\(String(decoding: json, as: UTF8.self))")
            return true
        }
        #expect(read > 1000)
    }

    @Test func damagedHeadersAreReadAsTheDecoderReadsThemOrNotAtAll() throws {
        let read = TextDamage.count(of: try #require(Self.header(String(repeating: "0b", count: 16)).plainJSON)) {
            json in
            guard let header = CacheEntry.Header(plainJSON: json) else { return false }
            let decoded = try? JSONDecoder().decode(CacheEntry.Header.self, from: json)
            #expect(decoded == header, "\(String(decoding: json, as: UTF8.self))")
            return true
        }
        #expect(read > 1000)
    }

    /// A header with all fields that metadata may have.
    private static func header(_ checksum: String) -> CacheEntry.Header {
        var metadata = CachedData.Metadata(type: "image/jpeg", etag: "W/\"1\\2\"", lifetime: 60.5)
        (metadata.width, metadata.height, metadata.status, metadata.age) = (3, 4, 200, 1e-7)
        (metadata.stored, metadata.staleIfError, metadata.staleWhileRevalidate) = (1_795_338_000.123, 1e9, 0)
        metadata.lastModified = "Sun, 22 Nov 2026 09:00:00 GMT"
        (metadata.vary, metadata.headers) = (["accept": ""], ["cache-control": "max-age=60", "x-ä": "ü"])
        metadata.notes = ["the image is damaged", ""]
        metadata.generation = "3w5e11264sgsf"
        metadata.facts = "AQID"
        metadata.score = 72.5
        (metadata.fetched, metadata.rendition) = (1_795_338_000.5, "thumb")
        metadata.source = "https://example.org/a.jpg"
        metadata.address = "10.0.0.5"
        metadata.responder = "00112233445566778899aabbccddeeff"
        return CacheEntry.Header(length: 5, checksum: checksum, metadata: metadata)
    }

    @Test func aHeaderIsReadAsTheDecoderReadsIt() throws {
        for checksum in [String(repeating: "0a", count: 32), String(repeating: "0b", count: 16)] {
            let full = Self.header(checksum)
            #expect(!Mirror(reflecting: full.metadata).children.contains { "\($0.value)" == "nil" })
            let bare = CacheEntry.Header(length: 5, checksum: checksum, metadata: CachedData.Metadata(lifetime: 0))
            for header in [full, bare] {
                let json = try #require(header.plainJSON)
                #expect(CacheEntry.Header(plainJSON: json) == header)
                #expect(try JSONDecoder().decode(CacheEntry.Header.self, from: json) == header)
                #expect(header.checksum == checksum)
            }
        }
    }

    @Test(arguments: [
        "01.5", "00", "-01", "-.5", "1.e5", ".5", "1.", "1e999", "1e-999", "-", "1e", "+1", "1.5e+", "0x1", "1_0",
    ])
    func aNumberThatJSONDoesNotHaveIsNotRead(_ number: String) {
        let json = Data(#"{"length":5,"metadata":{"lifetime":\#(number)},"xxh3":"0b"}"#.utf8)
        #expect(CacheEntry.Header(plainJSON: json) == nil)
    }

    @Test(arguments: ["0", "-0", "0.5", "-1.25", "1e3", "1E-3", "1.5e+10", "123456789012345678901234567890"])
    func aNumberIsReadAsTheDecoderReadsIt(_ number: String) throws {
        let json = Data(#"{"length":5,"metadata":{"age":\#(number),"lifetime":1},"xxh3":"0b"}"#.utf8)
        let header = try #require(CacheEntry.Header(plainJSON: json))
        #expect(try JSONDecoder().decode(CacheEntry.Header.self, from: json) == header)
    }

    @Test func aChecksumThatCannotBeReadIsNone() {
        let digits = String(repeating: "0a", count: 32)
        let json = Data(#"{"length":5,"xxh3":"a\,"sha256":"\#(digits)","metadata":{"lifetime":1}}"#.utf8)
        #expect(CacheEntry.Header(plainJSON: json) == nil)
    }

    @Test func aHeaderThatIsNotPlainIsTheDecodersPart() throws {
        let metadata = CachedData.Metadata(etag: "\t", lifetime: 1)
        let header = CacheEntry.Header(length: 5, checksum: "0b", metadata: metadata)
        let json = try JSONEncoder().encode(header)
        #expect(CacheEntry.Header(plainJSON: json) == nil)
        #expect(CacheEntry.Header(json: ByteBuffer(bytes: json)) == header)
        #expect(CacheEntry.Header(json: ByteBuffer(string: "{")) == nil)
    }

    /// The canonical form of XXH3's 128 bits, as `xxhsum -H2` prints it.
    @Test func theChecksumOfOriginalsIsXXH3() {
        #expect(Checksum.xxh3(Data()) == "99aa06d3014798d86001c324468d497f")
        #expect(Checksum.xxh3(Data("megaton".utf8)) == "8a1168c82d2c312dcd69697a28af1eee")
    }
}
