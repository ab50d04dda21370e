import Testing

@testable import MegatonServer

/// The parts of paths, and sources in them.
@Suite struct ImagePathTests {
    private func source(_ text: String) throws -> ImageSource {
        try ImagePath("/unsafe/w:1/" + text).parts(presetsOnly: false).source
    }

    @Test func aPathHasSignatureOptionsAndSource() throws {
        let path = try ImagePath("/\(PublishedExample.signature)\(PublishedExample.path)?query")
        #expect(path.signature == PublishedExample.signature)
        #expect(path.signed == PublishedExample.path)
        let parts = try path.parts(presetsOnly: false)
        #expect(parts.options == [ImageArguments("rs:fill:300:400:0"), ImageArguments("g:sm")])
        #expect(parts.source.url == PublishedExample.source)
        #expect(parts.source.format == "png")
    }

    @Test func presetsAreOneSegment() throws {
        let path = try ImagePath("/unsafe/thumbnail:blurry/plain/http://example.com/a.jpg@png")
        let parts = try path.parts(presetsOnly: true)
        #expect(parts.options == [ImageArguments("preset:thumbnail:blurry")])
        #expect(parts.source.url == "http://example.com/a.jpg")
        let one = try ImagePath("/unsafe/thumbnail/plain/http://example.com/a.jpg").parts(presetsOnly: true)
        #expect(one.options == [ImageArguments("preset:thumbnail")])
    }

    @Test(
        arguments: [
            ("plain/http://example.com/a.jpg", "http://example.com/a.jpg", nil),
            ("plain/http://example.com/a.jpg@webp", "http://example.com/a.jpg", "webp"),
            ("plain/http://example.com/a.jpg@", "http://example.com/a.jpg", nil),
            ("plain/http%3A%2F%2Fexample.com%2Fa%20b.jpg%3Fv%3D1%26w%40", "http://example.com/a b.jpg?v=1&w@", nil),
            ("plain/http://example.com/a+b%2Bc%2525.jpg", "http://example.com/a+b+c%25.jpg", nil),
            ("plain/http://example.com/%C3%A9.jpg", "http://example.com/é.jpg", nil),
            ("plain/http://example.com/a:b/../c.jpg", "http://example.com/a:b/../c.jpg", nil),
            ("plain/s3://bucket/key.jpg@avif", "s3://bucket/key.jpg", "avif"),
            ("aHR0cDovL2V4YW1wbGUuY29tL2EuanBn", "http://example.com/a.jpg", nil),
            ("aHR0cDovL2V4YW1wbGUuY29tL2EuanBn.png", "http://example.com/a.jpg", "png"),
            ("aHR0/cDovL2V4YW1wbGUuY29tL2/EuanBn.", "http://example.com/a.jpg", nil),
            ("czM6Ly9iL2E=", "s3://b/a", nil), ("czM6Ly9iL2E", "s3://b/a", nil),
            ("L2EvPz8_fj4-.jpg", "/a/???~>>", "jpg"),
        ] as [(String, String, String?)]
    )
    func sourcesAreDecoded(_ text: String, _ url: String, _ format: String?) throws {
        let source = try self.source(text)
        #expect(source.url == url)
        #expect(source.format == format)
    }

    @Test(
        arguments: [
            ("plain/", "empty"), ("plain/@png", "empty"), ("plain/a@png@jpg", "more than one format"),
            ("plain/http://example.com/%", "without two hex digits"),
            ("plain/http://example.com/%4", "without two hex digits"),
            ("plain/http://example.com/%zz", "without two hex digits"),
            ("plain/http://example.com/%+1", "without two hex digits"),
            ("plain/http://example.com/%FF.jpg", "UTF-8"), ("plain/http://example.com/%C0%AE", "UTF-8"),
            ("plain/http://example.com/%00", "control characters"),
            ("plain/http://example.com/%0D%0AHost:x", "control characters"),
            ("plain", "base64"), (".png", "empty"), ("=", "empty"), ("a.b.c", "more than one format"), ("a", "base64"),
            ("aHR0c+8", "base64"), ("aHR0cDovL2V4YW1wbGUuY29tL2EuanBn/plain/x:y", "base64"), ("_w", "UTF-8"),
            ("aB", "base64"), ("enc/jwV3wUD9r4VBIzgv", "Encrypted"), ("-/w:2/plain/http://example.com", "Chained"),
            ("..", "empty"), ("/plain/http://example.com", "base64"),
            ("thumbnail/plain/http://example.com", "\"thumbnail\" is no option"),
            ("fill/100/100/sm/0/plain/http://example.com", "\"fill\" is no option"),
        ]
    )
    func sourcesThatCannotBeReadAreErrors(_ text: String, _ message: String) {
        let error = #expect(throws: ImageURLError.self) { try source(text) }
        #expect(error?.reason == .source && error?.status == 400)
        #expect(error?.description.contains(message) == true, "\(String(describing: error))")
    }

    @Test(arguments: ["", "/", "//", "///", "x", "/x", "/x/", "//x", "?", "/?/x", "/x?/y", "e\u{301}/x"])
    func pathsWithoutSignatureOrRestAreErrors(_ text: String) {
        let error = #expect(throws: ImageURLError.self) { try ImagePath(text) }
        #expect(error?.reason == .path)
    }

    /// A combining character makes one character of it and the slash before it, but not one byte.
    @Test func segmentsAreSplitByBytes() throws {
        let path = try ImagePath("/x/\u{301}a:\u{301}b/plain/c")
        #expect(path.signed == "/\u{301}a:\u{301}b/plain/c")
        #expect(try path.parts(presetsOnly: false).options.map(\.values) == [["\u{301}b"]])
    }

    @Test func lengthAndNumberOfOptionsAreLimited() throws {
        func error(_ path: String) -> ImageURLError? {
            #expect(throws: ImageURLError.self) { try ImagePath(path).parts(presetsOnly: false) }
        }
        let start = "/x/w:1/plain/"
        let longest = start + String(repeating: "a", count: ImagePath.maximumLength - start.utf8.count)
        #expect(try ImagePath(longest).parts(presetsOnly: false).options.count == 1)
        #expect(error(longest + "a")?.description.contains("4097 bytes") == true)
        #expect(error("/x" + String(repeating: "/w:1", count: 10_000) + "/plain/a")?.reason == .path)
        let most = "/x" + String(repeating: "/w:1", count: ImagePath.maximumOptions)
        #expect(try ImagePath(most + "/plain/a").parts(presetsOnly: false).options.count == 64)
        #expect(error(most + "/w:1/plain/a")?.description.contains("65 options") == true)
        #expect(error("/x/w:1/h:1")?.description.contains("no source") == true)
        // Base64 may be split as desired.
        let split = "YWFh".map(String.init).joined(separator: "/")
        #expect(try ImagePath("/x/" + split).parts(presetsOnly: false).source.url == "aaa")
    }

    @Test func base64HasOneSpelling() {
        #expect(Base64URL.decode("".utf8) == [])
        #expect(Base64URL.decode("_-8".utf8) == [0xFF, 0xEF])
        for text in ["A", "AB", "AAB", "A=", "AA==", "A A", "+A", "/A", "AAAAA"] {
            #expect(Base64URL.decode(text.utf8) == nil, "\(text)")
        }
    }
}
