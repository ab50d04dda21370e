import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Keywords of jobs and options, and the messages about invalid fields.
@Suite struct WordChoiceTests {
    private func rendition(_ fields: String) throws -> Rendition {
        try JSONDecoder().decode(Rendition.self, from: Data("{\"width\":9,\"height\":9,\(fields)}".utf8))
    }

    private func problem(_ json: String) -> String? {
        do {
            _ = try JSONDecoder().decode([Rendition].self, from: Data(json.utf8))
            return nil
        } catch {
            return (error as? DecodingError)?.fieldProblem?.description
        }
    }

    @Test func aliasesAreReadAndNeverWritten() throws {
        #expect(try rendition(#""format":"jpg""#).format == .jpeg)
        for word in ["center", "centre"] {
            #expect(try rendition("\"fit\":\"cover\",\"gravity\":\"\(word)\"").gravity == .center)
        }
        #expect(ImageProcessors.Crop(size: .init(width: 1, height: 2)).identifier.contains("place=centre"), "as before")
        let smart = try rendition(#""fit":"cover","gravity":"smart","format":"jpg""#)
        #expect(smart.gravity == .attention)
        let json = String(decoding: try JSONEncoder().encode(smart), as: UTF8.self)
        #expect(json.contains("attention") && json.contains("jpeg") && !json.contains("smart"))
        #expect(Rendition.Format.allowedWords == "jpeg (also jpg), png, webp, avif, gif, jxl")
    }

    @Test func aWordOfDigitsMayBeANumber() throws {
        #expect(try rendition(#""chroma":444"#).chroma == .s444)
        #expect(try rendition(#""chroma":"420""#).chroma == .s420)
        let message = try #require(problem(#"[{"width":9,"chroma":422}]"#))
        #expect(message == #"[0].chroma is 422; allowed are 420 (also 4:2:0), 444 (also 4:4:4)"#)
    }

    @Test(arguments: [
        (#"[{"width":9,"format":"jpgg"}]"#, #"[0].format is "jpgg"; allowed are jpeg (also jpg), png, webp"#),
        (#"[{"width":9,"format":"JPEG"}]"#, #"did you mean "jpeg"?"#),
        (#"[{"width":9,"format":"tiff"}]"#, #"[0].format is "tiff"; allowed are jpeg"#),
        (#"[{"width":9,"format":7}]"#, "[0].format is 7; allowed are jpeg"),
        (#"[{"width":9},{"width":9,"fit":"covr"}]"#, #"[1].fit is "covr""#),
        (#"[{"width":"9"}]"#, #"[0].width is "9"; allowed are whole numbers from 1 to 8192"#),
        (#"[{"width":9.5}]"#, "[0].width is 9.5"), (#"[{"width":0}]"#, "[0].width is 0; allowed are 1 to 8192 pixels"),
        (#"[{"width":9,"quality":101}]"#, "[0].quality is 101; allowed are 1 to 100"),
        (#"[{"width":9,"enlarge":"yes"}]"#, #"[0].enlarge is "yes"; allowed are true and false"#),
        (#"[{"width":9,"background":"red"}]"#, #"[0].background is "red""#),
        (#"[{"width":9,"background":{}}]"#, "[0].background is an object"),
        (#"[{"width":9,"name":"a/b"}]"#, #"[0].name is "a/b""#), (#"[{"width":9,"name":[1]}]"#, "[0].name is a list"),
        (#"[{"width":9,"height":9,"fit":"cover","focus":{"x":2,"y":0}}]"#, "[0].focus.x is 2.0"),
        (#"[{"width":9,"height":9,"fit":"cover","focus":{"x":1}}]"#, "[0].focus.y is missing"),
        (#"[{"width":9,"height":9,"fit":"cover","focus":{"x":1,"y":"z"}}]"#, #"[0].focus.y is "z""#),
        (#"[{"width":9,"height":9,"fit":"cover","focus":3}]"#, "[0].focus is 3; allowed is an object"),
        (#"[{"widht":9}]"#, #"[0] has an unknown field "widht""#), (#"[{"widht":9}]"#, #"did you mean "width"?"#),
        ("[5]", "[0] is 5; allowed is an object"), (#"[{"format":"png"}]"#, "[0] needs a width"),
    ])
    func aMessageNamesFieldValueAndWhatIsAllowed(_ json: String, _ part: String) throws {
        let message = try #require(problem(json))
        #expect(message.contains(part), "\(message)")
        #expect(!message.contains("Cannot initialize") && !message.contains("Expected to decode"), "\(message)")
    }

    @Test func valuesInMessagesAreShortAndWithoutSecrets() {
        let long = FieldProblem.quoted(String(repeating: "x", count: 10_000))
        #expect(long.count < 80 && long.hasSuffix("…\""))
        #expect(FieldProblem.quoted("https://user:pass@h/a?sig=1") == "\"https://h/a?…\"")
        let hidden = "https://user:" + String(repeating: "p", count: 5000) + "@h/"
        #expect(!FieldProblem.quoted(hidden).contains("ppp"))
        #expect(FieldProblem.quoted("data:image/png;base64,AAAA") == "\"data:…\"")
        #expect(FieldProblem.quoted("a\nb\u{202E}c") == "\"a\\u{a}b\\u{202e}c\"")
    }

    @Test func aNearWordIsSuggestedAndAFarOneIsNot() {
        #expect(Rendition.Gravity.suggestion(for: "centrer") == "centre")
        #expect(Rendition.Gravity.allowedWords.hasPrefix("center (also centre), north, "))
        #expect(Rendition.Format.allowedWords.hasPrefix("jpeg (also jpg), png, "))
        #expect(Rendition.Fit.suggestion(for: "contian") == "contain")
        #expect(Rendition.Format.suggestion(for: "tiff") == nil && Rendition.Format.suggestion(for: "") == nil)
        #expect(Spelling.nearest(to: String(repeating: "a", count: 100_000), among: ["a"]) == nil)
    }
}
