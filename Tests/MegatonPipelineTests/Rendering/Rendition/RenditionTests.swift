import Foundation
import FoundationNetworking
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

@Suite struct RenditionTests {
    private func decode(_ json: String) throws -> Rendition {
        try JSONDecoder().decode(Rendition.self, from: Data(json.utf8))
    }

    @Test func hasDefaults() throws {
        #expect(try decode(#"{"width":256,"height":256}"#) == Rendition(name: "256x256", width: 256, height: 256))
    }

    @Test func survivesTheWire() throws {
        let rendition = Rendition(
            name: "small",
            width: 10,
            height: 20,
            fit: .cover,
            format: .webp,
            quality: 33,
            background: .black
        )
        #expect(try JSONDecoder().decode(Rendition.self, from: JSONEncoder().encode(rendition)) == rendition)
    }

    @Test(arguments: [
        (#"{"width":256,"heigth":1}"#, "heigth"), (#"{}"#, "width"), (#"{"width":0}"#, "8192"),
        (#"{"width":9000}"#, "8192"), (#"{"width":5,"quality":101}"#, "quality"),
        (#"{"width":5,"fit":"cover"}"#, "cover"),
        (#"{"width":5,"name":"../x"}"#, "name"), (#"{"width":5,"background":"red"}"#, "#ffffff"),
    ])
    func refusesWithTheReason(_ json: String, _ word: String) {
        #expect { try decode(json) } throws: { "\($0)".contains(word) }
    }

    @Test func everyOptionSurvivesTheWire() throws {
        var rendition = Rendition(
            width: 10,
            height: 20,
            fit: .cover,
            format: .webp,
            focus: .init(x: 0.25, y: 1),
            dpr: 1.5,
            enlarge: true,
            effort: 2,
            lossless: true,
            animated: true,
            keepMetadata: .copyright,
            profile: .keep,
            qualityProfile: .faithful
        )
        #expect(try JSONDecoder().decode(Rendition.self, from: JSONEncoder().encode(rendition)) == rendition)
        (rendition.focus, rendition.gravity) = (nil, .northEast)
        (rendition.format, rendition.lossless, rendition.animated) = (.jpeg, false, false)
        (rendition.effort, rendition.progressive) = (nil, true)
        #expect(try JSONDecoder().decode(Rendition.self, from: JSONEncoder().encode(rendition)) == rendition)
        let json = """
            {"width":10,"height":20,"fit":"cover","gravity":"attention","dpr":2,"enlarge":false,"progressive":true,
            "keepMetadata":"none","profile":"srgb","qualityProfile":"balanced"}
            """
        let wanted = Rendition(width: 10, height: 20, fit: .cover, gravity: .attention, dpr: 2, progressive: true)
        #expect(try decode(json) == wanted)
    }

    /// Renditions encoded, and keys stored, before these options existed stay the same.
    @Test func defaultsAreNeitherWrittenNorPartOfTheIdentity() throws {
        let rendition = Rendition(width: 256, height: 256)
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        #expect(
            try String(decoding: encoder.encode(rendition), as: UTF8.self)
                == #"{"fit":"inside","format":"jpeg","height":256,"name":"256x256","quality":80,"width":256}"#
        )
        #expect(rendition.identity == ["256", "256", "inside", "jpeg", "80", "#ffffff"])
        #expect(Rendition(width: 5, format: .png).identity == ["5", "", "inside", "png", "", "#ffffff"])
        #expect(Rendition(width: 5, format: .webp, effort: 4).identity == Rendition(width: 5, format: .webp).identity)
        let key = CacheKey(.original, ["a"]).rendition(rendition)
        #expect(key == CacheKey(.rendition, [CacheKey(.original, ["a"]).digest] + rendition.identity))
    }

    @Test(arguments: [
        (#""gravity":"north""#, "gravity"), (#""focus":{"x":0.5,"y":0.5}"#, "focus"), (#""dpr":0.5"#, "dpr"),
        (#""dpr":4.1"#, "dpr"), (#""format":"webp","progressive":true"#, "progressive"), (#""effort":3"#, "effort"),
        (#""format":"webp","effort":7"#, "effort"), (#""lossless":true"#, "lossless"),
        (#""animated":true"#, "animated"), (#""format":"gif","keepMetadata":"copyright""#, "metadata"),
        (#""format":"gif","profile":"keep""#, "profiles"), (#""gravity":"middle""#, "gravity"),
        (#""height":5,"fit":"cover","focus":{"x":1.1,"y":0}"#, "focus"),
        (#""height":5,"fit":"cover","focus":{"x":0,"y":-0.1}"#, "focus"),
        (#""height":5,"fit":"cover","focus":{"x":0}"#, "y"),
        (#""height":5,"fit":"cover","focus":{"x":0,"y":0,"z":0}"#, "\"z\""),
        (#""height":5,"fit":"cover","focus":{"x":0,"y":0},"gravity":"east""#, "exclude"),
        (#""format":"tiff""#, "tiff"), (#""profile":"p3""#, "p3"), (#""qualityProfile":"best""#, "best"),
        (#""chroma":"422""#, "444"), (#""chroma":true"#, "444"), (#""format":"webp","chroma":"444""#, "jpeg and avif"),
        (#""format":"png","chroma":"420""#, "jpeg and avif"), (#""blur":0.2"#, "0.3"),
        (#""blur":true"#, "blur is true"),
        (#""sharpen":0"#, "0.1"), (#""sharpen":"1""#, "sharpen"), (#""trim":256"#, "255"), (#""trim":1.5"#, "trim"),
        (#""rotate":45"#, "90, 180, 270"), (#""flip":"up""#, "horizontal, vertical, both"),
        (#""grayscale":true,"profile":"keep""#, "profile"), (#""padding":-1"#, "padding is -1"),
        (#""padding":[1,2]"#, "top, right, bottom, left"), (#""padding":"1""#, "padding"),
        (#""padding":8192"#, "larger than 8192"), (#""padding":[0,5000,0,5000]"#, "larger than 8192"),
        (#""watermark":{}"#, "needs a text or an image"), (#""watermark":"a""#, "an object such as"),
        (#""watermark":{"text":"a","image":"b"}"#, "one of them"), (#""watermark":{"text":" "}"#, "watermark.text"),
        (#""watermark":{"text":"a\nb"}"#, "one line"), (#""watermark":{"text":"a","size":1}"#, "\"size\""),
        (#""watermark":{"image":"../a.png"}"#, "watermark.image"), (#""watermark":{"image":"a/b"}"#, "directory"),
        (#""watermark":{"text":"a","opacity":1.1}"#, "watermark.opacity"),
        (#""watermark":{"text":"a","scale":0}"#, "watermark.scale"),
        (#""watermark":{"text":"a","margin":-1}"#, "watermark.margin"),
        (#""watermark":{"text":"a","x":8193}"#, "watermark.x"), (#""watermark":{"text":"a","y":"1"}"#, "watermark.y"),
        (#""watermark":{"text":"a","position":"repeat","y":-1}"#, "between the copies"),
        (#""watermark":{"text":"a","position":"attention"}"#, "repeat"),
        (#""maxBytes":0"#, "maxBytes"), (#""format":"png","maxBytes":9"#, "jpeg, webp, avif and jxl"),
        (#""format":"webp","lossless":true,"maxBytes":9"#, "lossless"),
    ])
    func refusesOptionsThatCannotWork(_ fields: String, _ word: String) {
        #expect { try decode("{\"width\":5,\(fields)}") } throws: { "\($0)".contains(word) }
    }

    @Test(arguments: [
        #""dpr":1"#, #""dpr":4"#, #""format":"png","effort":9"#, #""format":"gif","effort":10,"animated":true"#,
        #""format":"jxl","effort":3,"lossless":true,"profile":"keep""#, #""format":"avif","effort":9"#,
        #""height":5,"fit":"cover","focus":{"x":0,"y":1}"#, #""height":5,"fit":"cover","gravity":"southwest""#,
        #""blur":0.3"#, #""blur":100"#, #""sharpen":10"#, #""sharpen":true"#, #""trim":0"#, #""trim":255"#,
        #""trim":false"#, #""rotate":270"#, #""padding":4093"#, #""padding":[0,0,0,0]"#, #""maxBytes":1"#,
        #""watermark":{"text":"© <Me> & you","scale":null,"opacity":0}"#,
        #""watermark":{"image":"logo.png","position":"repeat","scale":1,"margin":8192}"#,
        #""watermark":{"image":"logo.png","x":-8192,"y":0.5}"#,
        #""chroma":"420""#, #""quality":90,"chroma":"4:4:4""#, #""format":"avif","chroma":"444""#,
    ])
    func takesOptionsAtTheirEdges(_ fields: String) throws {
        #expect(try decode("{\"width\":5,\(fields)}").validationError == nil)
    }

    private static func shifted(_ x: Double, _ y: Double) -> Rendition.Watermark {
        var watermark = Rendition.Watermark(.text("a"))
        (watermark.x, watermark.y) = (x, y)
        return watermark
    }

    @Test func identityHoldsEveryOption() {
        let base = Rendition(width: 1, height: 2, fit: .cover, format: .webp)
        let changes: [(inout Rendition) -> Void] = [
            { $0.gravity = .north }, { $0.gravity = .attention }, { $0.focus = .init(x: 0, y: 0) },
            { $0.focus = .init(x: 0, y: 0.5) }, { $0.dpr = 2 }, { $0.dpr = 3 }, { $0.enlarge = true },
            { $0.effort = 2 }, { $0.effort = 3 }, { $0.lossless = true }, { $0.animated = true },
            { $0.keepMetadata = .copyright }, { $0.profile = .keep }, { $0.format = .gif }, { $0.format = .jxl },
            { $0.format = .jpeg }, { ($0.format, $0.progressive) = (.jpeg, true) },
            { $0.qualityProfile = .fast }, { $0.qualityProfile = .faithful },
            { $0.trim = 0 }, { $0.trim = 10 }, { $0.rotate = .quarter }, { $0.rotate = .half }, { $0.flip = .both },
            { $0.flip = .vertical }, { $0.blur = 1 }, { $0.blur = 1.5 }, { $0.sharpen = 1 }, { $0.grayscale = true },
            { $0.flatten = true }, { $0.linear = true },
            { $0.padding = .init(1) }, { $0.padding = .init(top: 1, right: 1, bottom: 1, left: 2) },
            { $0.watermark = .init(.text("a")) }, { $0.watermark = .init(.image("a")) },
            { $0.watermark = .init(.text("a"), position: .north) }, { $0.watermark = .init(.text("a"), opacity: 0.5) },
            { $0.watermark = .init(.text("a"), scale: 0.5) }, { $0.watermark = .init(.text("a"), margin: 1) },
            { $0.watermark = Self.shifted(1, 0) }, { $0.watermark = Self.shifted(0, 1) },
            { $0.maxBytes = 1 }, { $0.maxBytes = 2 },
            { ($0.format, $0.chroma) = (.avif, .s420) }, { ($0.format, $0.chroma) = (.avif, .s444) },
        ]
        let all = changes.map { change in
            var rendition = base
            change(&rendition)
            return rendition.identity
        }
        #expect(Set(all + [base.identity]).count == changes.count + 1)
    }

    @Test func identityHoldsEverythingThatChangesBytesAndNotTheName() {
        let base = Rendition(name: "a", width: 1, height: 2)
        #expect(Rendition(name: "b", width: 1, height: 2).identity == base.identity)
        let others = [
            Rendition(width: 2, height: 1), Rendition(width: 1, height: 2, fit: .cover),
            Rendition(width: 1, height: 2, format: .png), Rendition(width: 1, height: 2, quality: 81),
            Rendition(width: 1, height: 2, background: .black), Rendition(width: 1), Rendition(height: 2),
        ]
        #expect(Set(others.map(\.identity) + [base.identity]).count == others.count + 1)
    }

    @Test func keysDoNotCollideWhereJoinedStringsWould() {
        #expect(CacheKey(.original, ["ab", "c"]) != CacheKey(.original, ["a", "bc"]))
        #expect(CacheKey(.original, ["a"]) != CacheKey(.rendition, ["a"]))
        #expect(CacheKey(.original, ["a", ""]) != CacheKey(.original, ["a"]))
        #expect(CacheKey(.original, ["a"]).digest.count == 64)
    }

    // Keys of requests; Nuke joins strings instead.
    @Test func aRequestsKeyIsNotJoined() {
        func key(_ steps: [String], id: String = "a", scope: String? = nil) -> CacheKey {
            var request = ImageRequest(url: nil, processors: steps.map { TestProcessor(identifier: $0) })
            (request.imageID, request.credentialScope) = (id, scope)
            return .image(of: request)
        }
        var small = ImageRequest(url: nil)
        (small.imageID, small.thumbnail) = ("a", .init(maxPixelSize: 4))
        let keys = [
            key(["b", "c"]), key(["bc"]), key(["b", "", "c"]), key(["c"], id: "ab"), key([]), key([""]),
            key([], id: "ab"), key([], scope: "b"), .image(of: small), key([small.thumbnail?.identifier ?? ""]),
        ]
        #expect(Set(keys).count == keys.count)
    }

    @Test func scopeAndHeaderFieldsArePartOfTheKey() {
        let url = URL(string: "https://example.org/a.jpg")!
        let plain = ImageRequest(url: url)
        #expect(CacheKey.original(of: plain) == .original(of: ImageRequest(url: url)))
        var scoped = plain
        scoped.credentialScope = "ann"
        #expect(CacheKey.original(of: plain) != .original(of: scoped))
        var particular = plain
        particular.headers = ["Accept": "image/png"]
        #expect(CacheKey.original(of: plain) != .original(of: particular))
        var posted = URLRequest(url: url)
        posted.httpMethod = "POST"
        #expect(CacheKey.original(of: plain) != .original(of: ImageRequest(urlRequest: posted)))
        var (signed, again): (ImageRequest, ImageRequest) = (
            "https://example.org/a.jpg?sig=1", "https://example.org/a.jpg?sig=2"
        )
        #expect(CacheKey.original(of: signed) != .original(of: again))
        (signed.imageID, again.imageID) = ("a", "a")
        #expect(CacheKey.original(of: signed) == .original(of: again))
    }
}
