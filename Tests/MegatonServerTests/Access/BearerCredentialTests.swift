import Testing

@testable import MegatonServer

/// The header `Authorization`.
@Suite struct BearerCredentialTests {
    private static let values: [(String, BearerCredential)] = [
        ("Bearer abc", .token("abc")), ("bearer x", .token("x")), ("BEARER x", .token("x")),
        ("Bearer  abc", .token("abc")), ("Bearer abc  ", .token("abc")), (" \tBearer abc\t", .token("abc")),
        ("Bearer a-b._~+/c==", .token("a-b._~+/c==")),
        ("", .absent), ("Bearer", .absent), ("Bearer ", .absent), ("Basic YTpi", .absent), ("Bearerabc", .absent),
        ("abc", .absent), ("Token abc", .absent), ("Bearer\tabc", .absent), ("Bearer: abc", .absent),
        ("Bearer a b", .malformed), ("Bearer abc, Bearer def", .malformed), ("Bearer \"abc\"", .malformed),
        ("Bearer ab=c", .malformed), ("Bearer ==", .malformed), ("Bearer tök", .malformed),
        ("Bearer ａｂｃ", .malformed), ("Bearer a\0b", .malformed), ("Bearer a\r\nb", .malformed),
        ("Bearer token=abc", .malformed),
    ]

    @Test(arguments: values) func aHeaderIsRead(_ value: String, _ credential: BearerCredential) {
        #expect(BearerCredential([value]) == credential)
    }

    @Test func severalHeadersAreAmbiguous() {
        #expect(BearerCredential([]) == .absent)
        #expect(BearerCredential(["Bearer abc", "Bearer abc"]) == .ambiguous)
        #expect(BearerCredential(["Basic YTpi", "Bearer abc"]) == .ambiguous)
    }

    @Test func aTokenHasAMaximumSize() {
        let longest = String(repeating: "a", count: 1024)
        #expect(BearerCredential(["Bearer " + longest]) == .token(longest))
        #expect(BearerCredential(["Bearer a" + longest]) == .malformed)
    }
}
