import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// Sitemaps as inputs.
@Suite(.timeLimit(.minutes(3))) struct SitemapInputTests {
    private static let head =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
        + "xmlns:image=\"http://www.google.com/schemas/sitemap-image/1.1\">\n"

    private static func page(_ url: String, _ images: String...) -> String {
        let images = images.map { "<image:image><image:loc> \($0)\n</image:loc></image:image>" }.joined()
        return "<url><loc>\(url)</loc>\(images)</url>\n"
    }

    private static func index(_ urls: [String]) -> String {
        let sitemaps = urls.map { "<sitemap><loc>\($0)</loc></sitemap>\n" }.joined()
        return "<sitemapindex>\n\(sitemaps)</sitemapindex>"
    }

    private func sitemap(_ text: String) throws(Sitemap.Failure) -> Sitemap {
        try Sitemap(Data(text.utf8), fileExtensions: InputReader.defaultFileExtensions)
    }

    private func reason(_ text: String) -> String {
        do {
            _ = try sitemap(text)
            return "no failure"
        } catch {
            return error.reason
        }
    }

    private func compressed(_ text: String, _ directory: TestDirectory) async throws -> Data {
        let file = try directory.write(Data(text.utf8), to: "plain-\(UUID().uuidString)")
        let ending = await (try ProgramUnderTest(program: "/bin/gzip", arguments: ["--keep", file])).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        return try Data(contentsOf: URL(fileURLWithPath: file + ".gz"))
    }

    @Test func imagesArePickedFromPages() throws {
        let text =
            Self.head + Self.page("https://h.example/a", "https://h.example/1.jpg?a=1&amp;b=2", "https://h.example/2")
            + Self.page("https://h.example/b.PNG?x") + "<url><loc><![CDATA[https://h.example/c.webp]]></loc></url>"
            + "<url><video:video xmlns:video='v'><video:loc>https://h.example/d.jpg</video:loc></video:video></url>"
            + "</urlset>"
        let found = try sitemap(text)
        let images = ["1.jpg?a=1&b=2", "2", "b.PNG?x", "c.webp"].map { "https://h.example/\($0)" }
        #expect(found.images.map(\.url) == images && found.sitemaps.isEmpty)
        #expect(found.images.first?.line == 4)
        #expect(try sitemap(Self.index(["https://h.example/s.xml"])).sitemaps.map(\.url) == ["https://h.example/s.xml"])
        #expect(try sitemap("<urlset/>") == Sitemap())
    }

    /// Fault: a sitemap without the declaration of Google's extension, or with a line before its first one, was "not
    /// valid XML".
    @Test func faultsOfNamespacesAndLeadingSpacesAreAccepted() throws {
        let page = Self.page("https://h.example/a", "https://h.example/1.jpg")
        for head in ["<urlset>", "<urlset xmlns='htp:/a b'>", "<urlset xmlns:image=''>", "\u{FEFF}\n<urlset>"] {
            #expect(try sitemap("\(head)\(page)</urlset>").images.map(\.url) == ["https://h.example/1.jpg"], "\(head)")
        }
        let late = try sitemap("\n\r\n\t\(Self.head)\(page)</urlset>")
        #expect(late.images.map(\.url) == ["https://h.example/1.jpg"])
        let usual = try sitemap("\(Self.head)\(page)</urlset>")
        #expect(late.images.map(\.line) == usual.images.map { $0.line + 2 })
    }

    @Test func otherDocumentsAreNamed() {
        #expect(reason("<rss></rss>") == "is XML, but not a sitemap: its first element is rss")
        let mismatch = "is not valid XML, line 1: an element is ended by the name of another one"
        #expect(reason("<urlset><url></urlset>") == mismatch)
        let ampersand = reason("\n<urlset><url>\n<loc>a?b&c=d</loc></url></urlset>")
        #expect(ampersand.hasPrefix("is not valid XML, line 3: an &"), "\(ampersand)")
        #expect(reason("<urlset><url/>").hasPrefix("is not valid XML, line 1: "))
        #expect(reason("").hasPrefix("is not valid XML") && reason(" \n").hasPrefix("is not valid XML"))
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\"><!ENTITY c \"&b;&b;&b;\">]><urlset>&c;</urlset>"
        #expect(reason(bomb).hasPrefix("has a document type declaration"))
        let deep = String(repeating: "<a>", count: 100)
        #expect(reason("<urlset>\(deep)").hasPrefix("is not a sitemap: its elements are nested too deeply"))
        #expect(reason(String(repeating: " ", count: Sitemap.sizeLimit + 1)).hasPrefix("is larger than 52428800 bytes"))
    }

    @Test func aCompressedSitemapIsLimitedToo() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let text = "<urlset>" + Self.page("https://h.example/a.png") + "</urlset>"
        let data = try await compressed(text, directory)
        #expect(try Gzip.decompressed(data, limit: text.utf8.count) == Data(text.utf8))
        #expect(try Gzip.decompressed(data + data, limit: 1000) == Data((text + text).utf8))
        #expect(throws: Gzip.Failure.tooLarge) { try Gzip.decompressed(data, limit: text.utf8.count - 1) }
        #expect(throws: Gzip.Failure.damaged) { try Gzip.decompressed(data.dropLast(10), limit: 1000) }
        #expect(throws: Gzip.Failure.damaged) { try Gzip.decompressed(data.prefix(3), limit: 1000) }
        #expect(throws: Gzip.Failure.damaged) { try Gzip.decompressed(data + Data("x".utf8), limit: 1000) }
        let zeros = String(repeating: "0", count: Sitemap.sizeLimit + 1)
        let bomb = try await compressed(zeros, directory)
        #expect(bomb.count < 100_000)
        #expect {
            try Sitemap(bomb, fileExtensions: [])
        } throws: {
            ($0 as? Sitemap.Failure)?.reason.hasPrefix("is larger") == true
        }
    }

    @Test func anIndexIsFollowedOneLevelDeep() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        try await OriginServer.run(responding: { request in
            let base = "http://\(request.headers["host"] ?? "")"
            switch request.path {
            case "/index.xml":
                let names = ["a.xml", "missing.xml", "index.xml", "b.xml"].map { "\(base)/\($0)" }
                return .init(body: Data(Self.index(names + ["file:///etc/sitemap.xml"]).utf8))
            case "/a.xml":
                return .init(body: Data((Self.head + Self.page("\(base)/p", "\(base)/a.png") + "</urlset>").utf8))
            case "/b.xml":
                let pages = Self.page("\(base)/p", "file:///etc/b.png") + Self.page("\(base)/b.png")
                return .init(body: Data((Self.head + pages + "</urlset>").utf8))
            case "/a.png", "/b.png": return .image(image)
            default: return .init(status: 404)
            }
        }) { (origin) async throws in
            let arguments = [origin.url("/index.xml").absoluteString, "--input-format", "sitemap", "--allow-private"]
            let ending = try await home.run(arguments + ["-j1"])
            #expect(ending.code == 2, "\(ending.errors)")
            let outcomes = try home.ledger()
            let done = outcomes.filter { $0.status == .done }.map(\.source).sorted()
            #expect(done == ["/a.png", "/b.png"].map { origin.url($0).absoluteString })
            let messages = outcomes.compactMap(\.error?.message).joined(separator: "\n")
            for part in ["missing.xml answered 404", "an index within an index", "names http and https URLs only"] {
                #expect(messages.contains(part), "\(messages)")
            }
            #expect(outcomes.count == 6, "\(outcomes.map(\.source))")
            let dry = try await home.run(arguments + ["--dry-run"])
            #expect(dry.errors.contains("2 outputs of 2 jobs would be made"), "\(dry.errors)")
            let closed = try await home.run(Array(arguments.dropLast()) + ["-j1"])
            #expect(closed.code == 64 && closed.errors.contains("loopback"), "\(closed.errors)")
            #expect(closed.errors.contains("--allow-private permits such addresses"), "\(closed.errors)")
            #expect(!closed.errors.contains("AddressPolicy"), "the name of a setting of the library")
        }
    }

    @Test(arguments: [
        ("https://h.example/sitemap.xml", true), ("http://h.example/a/sitemap.xml.gz", true),
        ("https://h.example/SiteMap_Index.XML", true), ("https://h.example/sitemap-posts-1.xml?page=2", true),
        ("https://h.example/news/sitemap7.xml.GZ#x", true), ("HTTPS://h.example/post-sitemap.xml", true),
        ("https://h.example/wp_sitemap_index.xml", true), ("https://h.example/feed.xml", false),
        ("https://h.example/sitemap.xml/", false), ("https://h.example/sitemap.xml/a.jpg", false),
        ("https://h.example/sitemap", false), ("https://h.example/sitemap.gz", false),
        ("https://h.example/a.jpg?sitemap.xml", false), ("https://sitemap.xml", false), ("sitemap.xml", false),
        ("file:///sitemap.xml", false), ("s3://bucket/sitemap.xml", false),
    ])
    func aURLIsASitemapByItsName(_ url: String, _ isSitemap: Bool) {
        var selection = InputSelection(arguments: [url])
        #expect(selection.isSitemapURL(url) == isSitemap)
        selection.format = .table(.csv)
        #expect(!selection.isSitemapURL(url), "an explicit format ranks above the name")
    }

    @Test func sitemapsByURLNeedNoOption() async throws {
        let home = try RunTests.Home()
        let page = TestImage.quarters(width: 32, height: 32, seed: 1)
        let other = TestImage.quarters(width: 32, height: 32, seed: 2)
        // The origin's address is known only when it runs, so that its sitemaps name an origin that runs already.
        try await OriginServer.run(answer: { $0 == "/page.png" ? .image(page) : .image(other) }) {
            (images) async throws in
            let text =
                Self.head + Self.page("https://h.example/p", images.url("/page.png").absoluteString)
                + "</urlset>"
            let packed = try await compressed(
                Self.head + Self.page(images.url("/other.png").absoluteString) + "</urlset>",
                home.directory
            )
            try await OriginServer.run(answer: { path in
                switch path {
                case "/sitemap.xml": .init(body: Data(text.utf8))
                case "/Sitemap-2.xml.gz": .init(body: packed)
                case "/named.png": .image(page)
                default: .init(status: 404)
                }
            }) { (origin) async throws in
                // One command with both, an image and a list, which the option would make sitemaps of.
                let urls = ["/sitemap.xml", "/Sitemap-2.xml.gz", "/named.png"].map { origin.url($0).absoluteString }
                let list = try home.directory.write(Data(images.url("/listed.png").absoluteString.utf8), to: "l.txt")
                let ending = try await home.run(urls + [list, "--allow-private", "-j1"])
                #expect(ending.code == 0, "\(ending.errors)")
                let expected = ["/page.png", "/other.png", "/listed.png"].map { images.url($0).absoluteString }
                let sources = try home.ledger().map(\.source).sorted()
                #expect(sources == (expected + [origin.url("/named.png").absoluteString]).sorted())
                let dry = try await home.run([urls[1], "--allow-private", "--dry-run"])
                #expect(dry.errors.contains("1 output of 1 job would be made"), "\(dry.errors)")
                // An explicit format ranks above the name: the URL is a source, whose bytes are no image.
                let explicit = try await home.run([urls[0], "--allow-private", "-j1", "--input-format", "txt"])
                #expect(explicit.code == 2, "\(explicit.errors)")
                #expect(try home.ledger().map(\.source) == [urls[0]])
                let missing = try await home.run([
                    origin.url("/a/sitemap.xml").absoluteString, "--allow-private", "-j1",
                ])
                #expect(missing.code == 64 && missing.errors.contains("sitemap.xml answered 404"), "\(missing.errors)")
            }
        }
    }

    @Test func aFileIsASitemapByItsName() async throws {
        let home = try RunTests.Home()
        try await OriginServer.run(answer: { _ in .image(TestImage.quarters(width: 32, height: 32)) }) {
            (origin) async throws in
            let text = Self.head + Self.page("x", origin.url("/a.png").absoluteString) + "</urlset>"
            let plain = try home.directory.write(Data(text.utf8), to: "one.xml")
            let packed = try home.directory.write(try await compressed(text, home.directory), to: "two.xml.gz")
            for file in [plain, packed] {
                let ending = try await home.run([file, "--allow-private", "-j1"])
                #expect(ending.code == 0, "\(ending.errors)")
                #expect(try home.ledger().map(\.source) == [origin.url("/a.png").absoluteString])
            }
            let options = ["-o", home.output, "--allow-private", "-j1", "-q"]
            let piped = try await home.piped(Data(text.utf8), ["run", "-", "--input-format", "sitemap"] + options)
            #expect(piped.code == 0 && piped.errors.isEmpty, "\(piped.errors)")
            let list = try home.directory.write(Data(text.utf8), to: "list.txt")
            let wrong = try await home.run([list, "-j1"])
            #expect(wrong.code == 64 && wrong.errors.contains("list.txt is a sitemap: name it .xml"), "\(wrong.errors)")
        }
    }

    @Test func aFileThatIsNoSitemapEndsTheRun() async throws {
        let home = try RunTests.Home()
        let feed = try home.directory.write(Data("<?xml version=\"1.0\"?><rss/>".utf8), to: "feed.xml")
        let ending = try await home.run([feed, "-j1"])
        #expect(ending.code == 64 && ending.errors.contains("feed.xml is XML, but not a sitemap"), "\(ending.errors)")
        let cut = try home.directory.write(Data((Self.head + "<url>").utf8), to: "cut.xml")
        let damaged = try await home.run([cut, "-j1"])
        #expect(damaged.code == 64 && damaged.errors.contains("cut.xml is not valid XML"), "\(damaged.errors)")
    }
}
