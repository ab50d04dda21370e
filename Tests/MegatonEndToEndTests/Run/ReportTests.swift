import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// The page of `--report` and `megaton report`, in a browser too.
@Suite(.timeLimit(.minutes(3))) struct ReportTests {
    /// The data of a page's script.
    private func content(_ page: String) throws -> [String: Any] {
        let html = try String(contentsOfFile: page, encoding: .utf8)
        let start = try #require(html.range(of: #"id="content">"#)).upperBound
        let end = try #require(html.range(of: "</script>", range: start..<html.endIndex)).lowerBound
        let object = try JSONSerialization.jsonObject(with: Data(html[start..<end].utf8))
        return try #require(object as? [String: Any])
    }

    /// The document after its script has run, in Debian's Chromium without a display.
    private func document(of page: String, _ home: RunTests.Home) async throws -> String {
        let browser = try ProgramUnderTest(
            program: "/usr/bin/chromium",
            arguments: [
                // In a container of root there is no sandbox; the page is the test's own.
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--user-data-dir=\(home.directory.path)/browser", "--dump-dom", "file://\(page)",
            ],
            environment: ["HOME": home.directory.path]
        )
        let ending = await browser.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        return ending.output
    }

    @Test func aRunHasAPageWithItsFailuresAndImages() async throws {
        let home = try RunTests.Home()
        for name in ["a b", "c", "d&amp;"] {
            try home.directory.write(TestImage.quarters(width: 64, height: 48), to: "in/\(name).png")
        }
        try home.directory.write(Data("no image".utf8), to: "in/</script><script>document.title='hit'.png")
        let ending = try await home.run(["in", "--size", "32", "--report", "-j", "1"])
        let page = home.output + "/report.html"
        #expect(ending.code == 2 && ending.errors.contains("the report is \(page)"), "\(ending.errors)")
        let content = try content(page)
        let totals = try #require(content["totals"] as? [String: Any])
        #expect(totals["done"] as? Int == 3 && totals["failed"] as? Int == 1 && totals["outputs"] as? Int == 3)
        let causes = try #require(content["causes"] as? [[String: Any]])
        #expect(causes.count == 1 && causes.first?["count"] as? Int == 1)
        let items = try #require(content["items"] as? [[String: Any]])
        #expect(items.compactMap { $0["image"] as? String }.contains("./a%20b-32x32.jpg"), "\(items)")
        let document = try await document(of: page, home)
        #expect(document.contains("<title>Megaton report</title>"), "a source is only text")
        #expect(document.contains(#"src="./a%20b-32x32.jpg""#) && document.contains("32×24"), "\(document)")
        #expect(document.contains("1 to 4 of 4"), "\(document)")
        // Again: the page is replaced.
        #expect(try await home.run(["in", "--size", "32", "--report", "-j", "1"]).code == 2)
    }

    /// Fault: the page named the images by their former paths.
    @Test func imagesThatWereMovedWithTheirLedgerAreShown() async throws {
        let home = try RunTests.Home()
        for name in ["a", "sub/b"] {
            try home.directory.write(TestImage.quarters(width: 64, height: 48), to: "in/\(name).png")
        }
        let ending = try await home.run(["in", "--size", "32", "-j", "1"])
        #expect(ending.code == 0, "\(ending.errors)")
        let moved = home.directory.path + "/new/place"
        try home.directory.write(Data(), to: "new/other.txt")
        try FileManager.default.moveItem(atPath: home.output, toPath: moved)
        let ledger = moved + "/megaton-ledger.jsonl"
        func images(_ page: String) async throws -> [String] {
            let ending = await (try home.megaton(["report", ledger, "-o", page])).ending()
            #expect(ending.code == 0, "\(ending.errors)")
            let items = try #require(try content(page)["items"] as? [[String: Any]])
            return items.compactMap { $0["image"] as? String }.sorted()
        }
        #expect(try await images(moved + "/report.html") == ["./a-32x32.jpg", "./sub/b-32x32.jpg"])
        let elsewhere = try await images(home.directory.path + "/in/page.html")
        #expect(elsewhere == ["file://\(moved)/a-32x32.jpg", "file://\(moved)/sub/b-32x32.jpg"])
    }

    @Test func anotherFileIsNotReplaced() async throws {
        let home = try RunTests.Home()
        let ledger = try home.directory.write(
            Data(#"{"source":"x","status":"done","outputs":[],"attempts":1,"seconds":0}"#.utf8),
            to: "l.jsonl"
        )
        let own = try home.directory.write(Data("<html>mine".utf8), to: "report.html")
        let refused = await (try home.megaton(["report", ledger])).ending()
        #expect(refused.code == 74 && refused.errors.contains("which is not a report of Megaton"), "\(refused.errors)")
        #expect(try String(contentsOfFile: own, encoding: .utf8) == "<html>mine")
        let other = home.directory.path + "/other.html"
        let ending = await (try home.megaton(["report", ledger, "-o", other])).ending()
        #expect(ending.code == 0 && ending.errors.contains("the report is \(other)"), "\(ending.errors)")
        for (arguments, words) in [
            (["report", own], "is not a ledger"), (["report", "/no/such.jsonl"], "cannot be read"),
            (["submit", own, "--report"], "--report needs --wait and --ledger FILE"),
            (["run", own, "-o", "o", "--report", "--ledger", "-"], "--report needs a ledger that is a file"),
        ] {
            let ending = await (try home.megaton(arguments)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
        }
    }

    /// Fault: with the usual ledger, a run found out at its end that its page would replace another file.
    @Test func aRunWhosePageWouldReplaceAnotherFileDoesNotBegin() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 64, height: 48), to: "in/a.png")
        let own = try home.directory.write(Data("<html>mine".utf8), to: "out/report.html")
        let refused = try await home.run(["in", "--report", "-j", "1"])
        #expect(refused.code == 74 && refused.errors.contains("which is not a report of Megaton"), "\(refused.errors)")
        #expect(!home.directory.files.contains("out/megaton-ledger.jsonl"), "\(home.directory.files)")
        #expect(try String(contentsOfFile: own, encoding: .utf8) == "<html>mine")
    }

    /// Fault: the report of one ledger replaced that of another in the same directory.
    @Test func thePageOfAnotherLedgerIsNotReplaced() async throws {
        let home = try RunTests.Home()
        let line = Data(#"{"source":"x","status":"done","outputs":[],"attempts":1,"seconds":0}"#.utf8)
        for (name, page) in [
            ("a.jsonl", "report.html"), ("b \"<.jsonl", "b \"<.html"), ("report.jsonl", "report.jsonl.html"),
            ("a.jsonl", "report.html"), ("b \"<.jsonl", "b \"<.html"),
        ] {
            let ledger = try home.directory.write(line, to: name)
            let path = home.directory.path + "/" + page
            let ending = await (try home.megaton(["report", ledger])).ending()
            #expect(ending.code == 0 && ending.errors.contains("the report is \(path)"), "\(ending.errors)")
            #expect(try content(path)["ledger"] as? String == name)
        }
    }

    /// 100,000 images: the page has them all, and the document of the browser one sheet.
    @Test func aLargeLedgerStaysUsable() async throws {
        let home = try RunTests.Home()
        var report = LedgerReport(directory: home.directory.path)
        let line = Data(
            #"""
            {"id":"1","source":"https://h.example/1.jpg","status":"done","attempts":1,"seconds":0.5,"outputs":[{"name":\#
            "a","path":"/elsewhere/1.jpg","width":8,"height":8,"format":"jpeg","bytes":10,"sha256":"0","from":"render"}]}
            """#.utf8
        )
        let outcome = try JSONDecoder().decode(JobOutcome.self, from: line)
        for _ in 0..<(LedgerReport.maximumItems + 7) { report.add(outcome) }
        #expect(report.items.count == LedgerReport.maximumItems && report.omitted == 7)
        #expect(report.slowest.count == 20 && report.topHosts.map(\.name) == ["h.example"])
        let page = home.directory.path + "/report.html"
        try ReportPage.data(report, ledger: "l.jsonl").write(to: URL(fileURLWithPath: page))
        let document = try await document(of: page, home)
        #expect(document.contains("1 to 120 of 100,000") && document.contains("7 more images and failures"))
        #expect(document.components(separatedBy: "<li>").count == 121)
    }

    /// Fault: each line of a ledger that several runs have written counted as a job.
    @Test func theLastLineOfAJobCounts() async throws {
        let home = try RunTests.Home()
        func line(_ id: String?, _ source: String, _ message: String?) -> String {
            let error = message.map { #","error":{"code":"timeout","message":"\#($0)","retryable":true}"# } ?? ""
            let start = id.map { #""id":"\#($0)","# } ?? ""
            let status = message == nil ? "done" : "failed"
            let rest = #""status":"\#(status)","attempts":1,"seconds":1,"outputs":[]\#(error)"#
            return #"{\#(start)"source":"\#(source)",\#(rest)}"#
        }
        let output = #"{"name":"a","width":8,"height":8,"format":"jpeg","bytes":7,"sha256":"0","from":"render"}"#
        let lines = [
            line("1", "https://h.example/1", "no answer"), line("2", "https://h.example/2", "no answer"),
            line("1", "https://h.example/1", nil), line("2", "https://h.example/other", nil),
            line("3", "https://h.example/3", "no answer (remembered for another 574 s)"),
            line(nil, "https://h.example/4", nil), line(nil, "https://h.example/4", nil),
            // Other jobs with the id and the source of one that is done.
            // It repeats the outputs of that job, which are no others.
            line("1", "https://h.example/1", nil).replacing(#""done""#, with: #""deduplicated""#)
                .replacing(#""outputs":[]"#, with: #""outputs":[\#(output)]"#),
            line("1", "https://h.example/1", "another job").replacing("timeout", with: "id_conflict"),
        ]
        let ledger = try home.directory.write(Data((lines.joined(separator: "\n") + "\n").utf8), to: "l.jsonl")
        var report = LedgerReport(directory: home.directory.path)
        try report.read(ledger)
        #expect(report.totals.jobs == 8 && report.totals.done == 4 && report.totals.failed == 3)
        #expect(report.totals.deduplicated == 1 && report.totals.outputs == 0)
        #expect(report.topCauses.map(\.count) == [2, 1])
        #expect(report.totals.unreadable == 0)
        // A line that is no outcome may still be about a job.
        let cut = line("2", "https://h.example/2", nil).replacing(#""attempts":1,"#, with: "")
        try home.directory.write(Data((([cut] + lines + [cut]).joined(separator: "\n")).utf8), to: "m.jsonl")
        var other = LedgerReport(directory: home.directory.path)
        try other.read(home.directory.path + "/m.jsonl")
        #expect(other.totals.jobs == 7 && other.totals.failed == 2 && other.totals.unreadable == 2)
    }

    /// An outcome with one output and facts about its source, whose placeholder is red.
    private func outcome(path: String?, _ thumbHash: String = "1fsDBwCIiIiIiIiIiIiIiIiIiIiIiIiI") throws -> JobOutcome {
        let start = path.map { #""path":"\#($0)","# } ?? ""
        let rest = #""name":"a","width":8,"height":8,"format":"jpeg","bytes":700,"sha256":"0","from":"render""#
        let facts =
            #"{"width":9,"height":9,"bytes":2048,"format":"png","orientation":1,"hasAlpha":false,"#
            + #""thumbHash":"\#(thumbHash)"}"#
        let line =
            #"{"source":"https://h.example/a.png","status":"done","attempts":1,"seconds":1,"facts":\#(facts),"#
            + #""outputs":[{\#(start)\#(rest)}]}"#
        return try JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8))
    }

    /// The problems that the browser has with a page, until a condition in JavaScript is true.
    private func problems(of page: String, _ home: RunTests.Home, until condition: String) async throws -> [String] {
        struct Seen: Decodable { let problems: [String] }
        let script = "\(Repository.root)/Tests/Browser/page.py"
        let arguments = [script, "file://\(page)", home.directory.path, "1200", "wait:\(condition)"]
        let ending = await (try ProgramUnderTest(program: "/usr/bin/python3", arguments: arguments)).ending()
        #expect(ending.code == 0, "\(ending.output) \(ending.errors)")
        return try JSONDecoder().decode(Seen.self, from: Data(ending.output.utf8)).problems
    }

    /// Fault: high images covered their captions and the tiles beside them.
    @Test func imagesStayWithinTheirFrames() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.png(width: 40, height: 400) { _, _ in (0, 90, 0, 255) }, to: "a.png")
        var report = LedgerReport(directory: home.directory.path)
        report.add(try outcome(path: home.directory.path + "/a.png"))
        let page = home.directory.path + "/report.html"
        try ReportPage.data(report, ledger: "l.jsonl").write(to: URL(fileURLWithPath: page))
        let frame = "i.closest('.frame').getBoundingClientRect().bottom + 1"
        let isWithin = "i.naturalHeight === 400 && i.getBoundingClientRect().bottom <= \(frame)"
        // The wait ends at changes of the document, and a loaded image is none.
        let mark = "i.onload = () => i.setAttribute('data-loaded', '')"
        let test = "(i => { if (!i) return false; \(mark); return \(isWithin); })"
        let condition = "\(test)(document.querySelector('#sheet img'))"
        #expect(try await problems(of: page, home, until: condition) == [])
    }

    /// Fault: the sum of two numbers crashed the program, or was one that JSON does not have.
    @Test func aLedgerMayHaveAnyNumber() async throws {
        let home = try RunTests.Home()
        let times = #"{"waiting":1e308,"fetching":1e308,"rendering":1e308,"storing":1e308}"#
        let output =
            #"{"name":"a","width":8,"height":8,"format":"jpeg","bytes":9000000000000000000,"sha256":"0","from":"cache"}"#
        let line =
            #"{"source":"https://h.example/a","status":"done","attempts":1,"seconds":1e308,"outputs":[\#(output)],"#
            + #""times":\#(times)}"#
        let ledger = try home.directory.write(Data("\(line)\n\(line)\n".utf8), to: "l.jsonl")
        let ending = await (try home.megaton(["report", ledger])).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        var report = LedgerReport(directory: home.directory.path)
        try report.read(ledger)
        #expect(report.totals.done == 2 && report.totals.bytes == .max)
    }

    /// Fault: beyond twenty causes the page did not say that there are others.
    @Test func theFailuresOfOtherCausesAreCounted() async throws {
        let home = try RunTests.Home()
        let words = "abcdefghijklmnopqrstuvwxy".map { String($0) }
        let lines = words.map { word in
            #"{"source":"https://h.example/a","status":"failed","attempts":1,"seconds":1,"outputs":[],"#
                + #""error":{"code":"cause_\#(word)","message":"why","retryable":false}}"#
        }
        let ledger = try home.directory.write(Data((lines.joined(separator: "\n") + "\n").utf8), to: "l.jsonl")
        let ending = await (try home.megaton(["report", ledger])).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let text = "!!document.getElementById('causes')?.textContent.includes('5 more failures')"
        #expect(try await problems(of: home.directory.path + "/report.html", home, until: text) == [])
    }

    /// Fault: such cards said "in the cache only", also for shards and objects.
    @Test func anOutputWithoutAFileHasThePlaceholderOfItsSource() async throws {
        let home = try RunTests.Home()
        var report = LedgerReport(directory: home.directory.path)
        report.add(try outcome(path: home.directory.path + "/a.jpg"))
        #expect(report.items.first?.image == "./a.jpg" && report.items.first?.thumbHash == nil)
        report = LedgerReport(directory: home.directory.path)
        for path in ["s3://bucket/a.jpg", nil] { report.add(try outcome(path: path)) }
        #expect(report.items.allSatisfy { $0.image == nil && $0.thumbHash?.hasPrefix("1fsD") == true })
        // Neither too short nor too long ones are a fault of the page.
        report.add(try outcome(path: nil, "1fs="))
        report.add(try outcome(path: nil, String(repeating: "AAAA", count: 10)))
        #expect(report.items.map { $0.thumbHash != nil } == [true, true, true, false])
        let page = home.directory.path + "/report.html"
        try ReportPage.data(report, ledger: "l.jsonl").write(to: URL(fileURLWithPath: page))
        let pixel = "c.getContext('2d').getImageData(8, 8, 1, 1).data"
        let isRed = "(d => d[0] > 200 && d[1] < 60 && d[2] < 60)(\(pixel))"
        let red = "[...document.querySelectorAll('canvas')].filter(c => \(isRed)).length === 2"
        #expect(try await problems(of: page, home, until: red) == [])
        #expect(try await document(of: page, home).contains("no file beside the page"))
    }

    @Test func sizesAndTheCausesOfEachHostAreShown() async throws {
        let home = try RunTests.Home()
        var report = LedgerReport(directory: home.directory.path)
        report.add(try outcome(path: nil))
        for (host, code) in [("a", "timeout"), ("b", "not_found"), ("a", "not_found"), ("a", "not_found")] {
            let error = #"{"code":"\#(code)","message":"no","retryable":true}"#
            let line =
                #"{"source":"https://\#(host).example/x","status":"failed","attempts":1,"seconds":0,"outputs":[],"#
                + #""error":\#(error)}"#
            report.add(try JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8)))
        }
        #expect(report.topHosts.map(\.name) == ["a.example", "b.example", "h.example"])
        #expect(report.topHosts.map(\.causes) == [["timeout": 1, "not_found": 2], ["not_found": 1], [:]])
        let page = home.directory.path + "/report.html"
        try ReportPage.data(report, ledger: "l.jsonl").write(to: URL(fileURLWithPath: page))
        let document = try await document(of: page, home)
        #expect(document.contains("not_found 2, timeout 1") && document.contains("2.0 KiB → 700 B, a"), "\(document)")
    }

    @Test func aPathThatIsNoFileIsNoLink() throws {
        let json =
            #"{"name":"a","path":"javascript:alert(1)","width":8,"height":8,"format":"jpeg","bytes":10,"#
            + #""sha256":"0","from":"render"}"#
        let line = #"{"source":"x","status":"done","attempts":1,"seconds":0,"outputs":[\#(json)]}"#
        var report = LedgerReport(directory: "/srv")
        report.add(try JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8)))
        #expect(report.items.count == 1 && report.items.first?.image == nil)
    }
}
