"""Topics, cities and small talk of the generated posts.

A sentence is a subject, an event and often a detail of the same topic, so that words of a topic occur together as in
real posts. Parts are separated by ``|``.
"""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """Parts of sentences about one topic."""

    name: str
    subjects: tuple[str, ...]
    events: tuple[str, ...]
    details: tuple[str, ...]
    tags: tuple[str, ...]
    emoji: str


class City(NamedTuple):
    """A city that posts mention and come from."""

    name: str
    lat: float
    lon: float


def _topic(name: str, subjects: str, events: str, details: str, tags: str, emoji: str) -> Topic:
    return Topic(name, _parts(subjects), _parts(events), _parts(details), tuple(tags.split()), emoji)


def _parts(joined: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in joined.split("|"))


# In order of popularity, most popular first.
TOPICS = (
    _topic("football", "the home team|the striker|our goalkeeper|the champions|the coach|a late substitute|the under-21 squad",
           "scores in extra time|wins the derby|misses a penalty|loses the cup final|signs a new contract|gets a red card",
           "after a video review|in front of 40,000 fans|despite an injured knee|for the third time this season|what a goal",
           "football goal derby cupfinal", "⚽"),
    _topic("weather", "heavy rain|a thunderstorm|dense fog|the first snow|a heat wave|strong wind|the storm",
           "hits the city|closes the schools|is expected tonight|moves towards the coast|breaks a 50 year record|causes floods",
           "take an umbrella|flood warning until Friday|temperatures drop to -5°|the river is rising|stay inside if you can",
           "weather storm flood snow", "⛈️"),
    _topic("traffic", "a burst water main|an accident with two lorries|a broken tram|road works|a protest march|a fallen tree",
           "blocks the ring road|closes the main bridge|delays all trains|stops line 4|causes a 12 km traffic jam|slows the motorway",
           "allow 40 minutes more|use the tunnel instead|police are on the scene|cyclists can still pass|expect delays",
           "traffic roadworks commute trains", "🚧"),
    _topic("election", "the mayor|the opposition|the prime minister|an independent candidate|the finance minister|voters",
           "wins the election|calls for a recount|resigns after a vote|promises lower taxes|leads the polls|debates on television",
           "turnout at 71%|results expected at midnight|&quot;a new start&quot; says the party|coalition talks begin Monday",
           "election vote debate politics", "🗳️"),
    _topic("markets", "the central bank|oil|the stock market|inflation|the euro|gold|a chip maker",
           "raises interest rates|falls sharply|closes at a record high|surprises analysts|drops 3.5%|rallies after earnings",
           "investors are nervous|bonds &amp; shares both down|the biggest move since 2008|mortgage rates follow|analysts expected less",
           "markets stocks economy inflation", "📈"),
    _topic("technology", "a start-up|the new phone|an open source project|the search engine|a robot|the satellite network",
           "launches today|raises 20 million|leaks user data|gets a security update|beats every benchmark|stops working worldwide",
           "update your password now|the source code is public|batteries last two days|developers are excited|R&amp;D was worth it",
           "tech startup opensource ai security", "🤖"),
    _topic("music", "the orchestra|a street musician|the jazz festival|her new album|the band|a choir of 200",
           "plays tonight|sells out in minutes|cancels the tour|wins an award|announces extra dates|gets a standing ovation",
           "doors open at 8|tickets from 15 euro|the encore was magic|listen with headphones|the violin solo!",
           "music concert jazz nowplaying", "🎶"),
    _topic("food", "the new bakery|a tiny café|the food market|my grandmother's recipe|a vegan restaurant|the coffee roaster",
           "opens on Saturday|serves the best soup|bakes fresh bread|gets a star|gives away free coffee|closes after 80 years",
           "try the crème brûlée|queue around the corner|gluten free too|the cheese alone is worth it|bring your own cup",
           "food coffee bread foodie", "☕"),
    _topic("crime", "police|a burglar|the court|two suspects|a pickpocket gang|an art thief",
           "arrested after a chase|steals a painting|goes on trial|found guilty of fraud|asks for witnesses|escapes by boat",
           "the jewels are still missing|detectives search the harbour|the judge speaks of greed|call 112 if you saw anything",
           "police court crime", "🚨"),
    _topic("health", "the hospital|a new vaccine|doctors|flu|researchers|nurses",
           "opens a new ward|works in trials|warn of long waiting times|spreads among children|go on strike|save a patient",
           "wash your hands|appointments from Monday|87% effective|no reason to panic|thank you to all staff",
           "health vaccine hospital", "🏥"),
    _topic("science", "a telescope|physicists|the rocket|a fossil hunter|the rover|biologists",
           "finds a new planet|measures gravity again|lands on the moon|discovers a dinosaur|photographs a black hole|counts whales",
           "4.2 light years away|published in a journal today|older than we thought|the data are open|peer review pending",
           "science space nasa moon", "🚀"),
    _topic("climate", "solar power|the wind farm|activists|the glacier|carbon emissions|an old coal plant",
           "grows faster than ever|is shut down|block the airport|melts at record speed|fall for the third year|meets the target",
           "new climate report|plant more trees|2 degrees too warm|energy bills go down|a summit in November",
           "climate energy solar", "🌍"),
    _topic("fire", "a fire|firefighters|thick smoke|an explosion|a gas leak|a forest fire",
           "destroys a warehouse|rescue a family|is seen for miles|shakes the harbour|forces an evacuation|is under control",
           "keep windows closed|nobody was hurt|cause still unknown|helicopters drop water|emergency services at the scene",
           "fire breaking emergency", "🔥"),
    _topic("earthquake", "an earthquake|a strong aftershock|the volcano|a tsunami warning|rescue teams|a landslide",
           "shakes the region|wakes the whole city|erupts again|is lifted|reach the village|destroys a bridge",
           "magnitude 5.8|felt as far as the coast|people sleep outside|donations needed|schools stay closed",
           "earthquake breaking rescue", "🌋"),
    _topic("film", "the director|a documentary|the sequel|an animated film|the festival jury|a famous actress",
           "wins the golden prize|opens in cinemas|divides the critics|breaks box office records|receives an award|starts filming",
           "no spoilers please|three hours long|the soundtrack!|bring a handkerchief|based on a true story",
           "film cinema oscars", "🎬"),
    _topic("cycling", "the peloton|a young sprinter|the mountain stage|the bike path|the city bike scheme|the world champion",
           "wins the stage|crashes in the rain|is extended to the beach|doubles its stations|takes the yellow jersey|attacks early",
           "43 seconds ahead|helmets on|legs of steel|the final climb decides|free for students",
           "cycling bike tour", "🚴"),
    _topic("animals", "a lost dog|the zoo|a baby elephant|an escaped parrot|a whale|my cat",
           "was found safe|celebrates a birth|is born|speaks three languages|swims up the river|sleeps on the keyboard",
           "please share|reward offered|look at those ears|name ideas welcome|veterinarians are hopeful",
           "dog cat animals wildlife", "🐘"),
    _topic("housing", "rent|the housing market|a student flat|the architect|an empty office tower|tenants",
           "rises again|cools down|costs a fortune|designs a wooden tower|becomes 300 apartments|win against the landlord",
           "one room and no window|waiting list of 9 years|viewing on Thursday|mortgage not included|neighbours object",
           "housing rent architecture", "🏠"),
    _topic("jobs", "our team|the factory|a software company|the union|a hotel chain|the port",
           "is hiring|closes and 900 jobs go|looks for engineers|agrees on higher wages|trains refugees|offers a four day week",
           "apply by the 15th|remote work possible|no experience needed|send your résumé|salary on the page",
           "jobs hiring work", "💼"),
    _topic("education", "students|the university|a school class|teachers|the library|an exam",
           "protest against fees|opens a free course|wins the robot contest|get smaller classes|stays open all night|was leaked",
           "sign up online|lectures start in September|books for everyone|the oldest student is 84|good luck to all",
           "education school university", "🎓"),
    _topic("travel", "the airline|a night train|the airport|tourists|a cruise ship|the passport office",
           "cancels 120 flights|connects both capitals|opens a new terminal|flood the old town|runs aground|is overwhelmed",
           "check before you leave|tickets on sale now|bring patience|seats by the window|luggage arrives later",
           "travel flights airport", "✈️"),
    _topic("tennis", "the number one|a qualifier|the doubles final|the wild card|the defending champion|the umpire",
           "wins in five sets|serves 31 aces|is stopped by rain|reaches the semi final|loses her first match|breaks a racket",
           "on centre court|after 4 hours and 12 minutes|match point saved|tie-break drama|new balls please",
           "tennis grandslam", "🎾"),
    _topic("gaming", "the new console|a speedrunner|the indie game|our e-sports team|the beta|a chess engine",
           "is sold out|sets a world record|gets a free update|qualifies for the finals|starts tomorrow|beats the grandmaster",
           "servers are full|patch notes inside|no loot boxes|streaming tonight|review embargo ends",
           "gaming esports chess", "🎮"),
    _topic("art", "the museum|a street artist|the photo exhibition|an unknown painting|the sculpture garden|the ballet",
           "opens its doors|paints a whole bridge|shows 200 portraits|sells for 12 million|reopens after repairs|dances outdoors",
           "free entry on Sunday|until the end of March|the light is wonderful|a must see|curated by students",
           "art museum photography", "🎨"),
    _topic("scams", "a fake parcel message|a phishing mail|the lottery scam|a bogus charity|a cloned website|a phone fraudster",
           "is going round|asks for your bank card|steals passwords|targets pensioners|pretends to be the tax office|empties accounts",
           "do not click|report it to your bank|delete it at once|hang up|nobody gives away a free phone",
           "scam phishing fraud security", "⚠️"),
    _topic("garden", "the tomatoes|my roses|the community garden|a bee colony|the old oak|the first strawberries",
           "are ripe|won a prize|needs volunteers|moved into the roof|was saved by neighbours|taste of summer",
           "water early|compost is everything|seeds to swap|slugs again|no pesticides",
           "garden bees nature", "🌻"),
)  # fmt: skip

CITIES = tuple(
    City(*city)
    for city in (
        ("London", 51.507, -0.128), ("New York", 40.713, -74.006), ("Amsterdam", 52.373, 4.893), ("Paris", 48.857, 2.352),
        ("Berlin", 52.52, 13.405), ("São Paulo", -23.551, -46.633), ("Tokyo", 35.682, 139.759), ("Madrid", 40.417, -3.704),
        ("Istanbul", 41.009, 28.966), ("Chicago", 41.878, -87.63), ("Zürich", 47.377, 8.542), ("Los Angeles", 34.052, -118.244),
        ("Toronto", 43.653, -79.383), ("Sydney", -33.869, 151.209), ("Mumbai", 19.076, 72.878), ("Lagos", 6.455, 3.394),
        ("Kraków", 50.065, 19.945), ("Bogotá", 4.711, -74.072), ("Lisbon", 38.722, -9.139), ("Dublin", 53.35, -6.26),
        ("Hamburg", 53.551, 9.994), ("Malmö", 55.605, 13.004), ("Rotterdam", 51.924, 4.478), ("Athens", 37.984, 23.728),
        ("Cairo", 30.044, 31.236), ("Nairobi", -1.292, 36.822), ("Singapore", 1.352, 103.82), ("Seoul", 37.566, 126.978),
        ("Montréal", 45.502, -73.567), ("Kyiv", 50.45, 30.524), ("Naples", 40.852, 14.268), ("Glasgow", 55.861, -4.25),
        ("Suva", -18.141, 178.442), ("Reykjavík", 64.147, -21.943), ("Cape Town", -33.925, 18.424), ("Antwerp", 51.22, 4.402),
    )
)  # fmt: skip

OPENERS = _parts(
    "BREAKING:|Just in:|Wow,|Good morning!|Can't believe it:|Don&#39;t miss this:|Update:|Live now:|OMG|So happy that|"
    "Hearing that|RT|Not again...|Finally!|FYI|Sources say|Watch:|I love how|LOL|Reminder:"
)

# Small talk, most used first; drawn by Zipf's law.
SMALL_TALK = tuple(
    "today people time good day love really new life world great night home week thing happy year morning friends best "
    "news back tomorrow weekend live free city watch team big real beautiful story hope wait thank amazing house family "
    "street coffee game video party car school money work phone photo book dream heart summer winter weather river park "
    "bridge sun light music train walk kids mother father brother sister neighbour office meeting monday friday sunday "
    "breakfast lunch dinner pizza beer wine chocolate cake birthday wedding holiday beach island mountain forest garden "
    "window door kitchen table garden market shop price sale ticket queue crowd square church tower harbour boat ship "
    "airport hotel museum library cinema theatre stadium hospital police mayor minister president parliament law court "
    "report study science history language culture tradition future past century decade million billion percent number "
    "question answer problem solution idea plan project programme system network computer internet website password "
    "battery camera screen keyboard robot satellite rocket planet moon star galaxy ocean wave storm rain snow ice fire "
    "smoke earth stone metal gold silver copper paper glass wood leather cotton colour blue green yellow orange purple "
    "café naïve résumé exposé fiancée jalapeño über façade piñata doppelgänger".split()
)

# Posts in other languages, each with its place.
FOREIGN = (
    ("es", "Llueve mucho en {city} y el tráfico está imposible 🌧️"), ("es", "¡Gol! El equipo gana el partido en {city} #fútbol"),
    ("es", "Mañana hay elecciones en {city}, no olvides votar"), ("pt", "O trânsito em {city} não está fácil hoje"),
    ("pt", "Que saudade da praia e do pão de queijo em {city}"), ("fr", "Grève des trains à {city} demain, prévoyez du temps"),
    ("fr", "Le marché de Noël de {city} est ouvert, quel bonheur"), ("de", "Schöne Grüße aus {city}, die Straße ist gesperrt"),
    ("de", "Der Zug nach {city} fährt heute nicht, schon wieder Verspätung"), ("nl", "Wat een mooie dag in {city}, lekker fietsen"),
    ("it", "Che bella serata a {city}, il gelato è perfetto"), ("tr", "İstanbul'dan {city} şehrine uçuşlar iptal edildi"),
    ("pl", "Żółta łódź na rzece w {city}, piękny wieczór"), ("el", "Καλημέρα από {city}, σήμερα έχει ήλιο"),
    ("ru", "Сегодня в {city} сильный снег и пробки"), ("ar", "مطر غزير في {city} اليوم"), ("he", "בוקר טוב מ {city}"),
    ("ja", "{city}は今日も雨です ☔"), ("zh", "{city}今天地震了，大家注意安全"), ("ko", "오늘 {city} 날씨 정말 좋다"),
    ("hi", "आज {city} में बहुत गर्मी है"),
)  # fmt: skip
