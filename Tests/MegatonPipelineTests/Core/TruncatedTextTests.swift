import Testing

@testable import MegatonCore

/// Texts with a maximum number of characters.
struct TruncatedTextTests {
    @Test(arguments: [
        ("", 3, ""),
        ("abc", 3, "abc"),
        ("abcd", 3, "abc"),
        ("abc", 0, ""),
        // Six bytes, three characters.
        ("äöü", 3, "äöü"),
        ("äöüß", 3, "äöü"),
        // One character of several scalars is not divided.
        ("👩‍👩‍👧ab", 2, "👩‍👩‍👧a"),
    ])
    func aTextHasAtMostSoManyCharacters(_ text: String, _ most: Int, _ expected: String) {
        #expect(text.truncated(to: most) == expected)
    }
}
